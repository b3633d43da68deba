"""A set as a page of Markdown."""

from __future__ import annotations

from pytest_harness.requirements.model import FAMILIES, Applies, Catalogue, Requirement


def to_markdown(catalogue: Catalogue) -> str:
    """The set as a page, family by family."""
    lines = [
        f"# Requirements {catalogue.version}",
        "",
        f"{len(catalogue)} requirements. Made from `conformance/requirements/{catalogue.version}.toml`, what it extends and the drafts by",
        "`python -m pytest_harness.requirements > docs/requirements.md`; change them there.",
        "",
    ]
    for family, name in FAMILIES.items():
        entries = [requirement for requirement in catalogue if requirement.family == family]
        if entries:
            lines += [f"## {family}: {name}", ""]
        for requirement in entries:
            lines += _entry(requirement)
    return "\n".join(lines).rstrip() + "\n"


def _entry(requirement: Requirement) -> list[str]:
    unscored = ", a draft that is not scored" if requirement.draft else ""
    return [
        f"### {requirement.id} {requirement.title} ({requirement.level}{unscored})",
        "",
        requirement.statement,
        "",
        f"- *Why:* {requirement.why}",
        f"- *Seen:* {requirement.seen}",
        f"- *Broken by:* {', '.join(f'`{name}`' for name in requirement.saboteurs)}",
        f"- *Judged of:* {', '.join(requirement.subjects)}" + ("" if requirement.draft else f"; since {requirement.since}"),
        *(["- *Occasional:* required only where what it speaks of comes up"] if requirement.occasional else []),
        *_conditions(requirement.applies),
        "",
    ]


def _conditions(applies: Applies) -> list[str]:
    conditions = []
    if applies.streams is not None:
        conditions.append("streamed seams" if applies.streams else "seams that do not stream")
    if applies.trajectory is not None:
        conditions.append("seams with an ATIF trajectory" if applies.trajectory == "atif" else "seams without a trajectory")
    if applies.dialects:
        conditions.append(f"the dialects {', '.join(applies.dialects)}")
    if applies.engines:
        conditions.append(f"the engines {', '.join(applies.engines)}")
    return [f"- *Only for:* {'; '.join(conditions)}"] if conditions else []
