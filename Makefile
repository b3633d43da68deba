# Two commands for people: `make demo` and `make test`. Both set everything up by themselves.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
TOOLS := .tools
STAMP := $(VENV)/.ready
UV := $(shell command -v uv || echo $(TOOLS)/bin/uv)

# Hundreds of processes of the tests import the project: what Python makes of the sources is kept, also where the machine says otherwise.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test lint unit fast rollouts docs docs-commands sandboxes verifiers table reports differential examples trainers cluster benchmark lock clean

help:
	@echo "make demo   judge two real harnesses, mini-swe-agent and pi, end to end"
	@echo "make test   lint, types, the documentation, unit tests, plugin tests, the wire suite on our proxy, the runtime suite on our runtime, the fast tier, and the rollouts of the demo"
	@echo "make lint | unit | fast | rollouts   the parts of make test"
	@echo "make docs   the documentation as a site, with every link followed: .harness/site"
	@echo "make docs-commands   the commands of the documentation that take minutes, and a run in four shards beside the whole"
	@echo "make sandboxes   sandboxes in containers and rollouts in them, on docker and podman; .ci/engines make sandboxes starts both and takes them down"
	@echo "make verifiers   the verifier suite in docker and podman; .ci/engines make verifiers likewise"
	@echo "make table  every harness of the table, the slow ones over what shows their wire; installs what is missing"
	@echo "make reports   publish the evidence of make table: reports/ and the table in the README"
	@echo "make differential   the scripted engine beside a real vLLM, the proxy before it, and the engine suite on it; it is installed into the cache if it is not there"
	@echo "make examples   the wheel and the sdist in clean environments: the repositories of examples/, pi outside the checkout, other versions of pytest"
	@echo "make trainers   the exported rows as datasets reads them and as TRL trains on them; both are installed, each into an environment of its own"
	@echo "make cluster   episodes and judgements on a cluster of Ray on this machine: two nodes, of which one is killed"
	@echo "make benchmark   what the proxy costs beside a direct call and its peers, into docs/performance.md"
	@echo "make lock   resolve requirements.lock anew"
	@echo "make clean  remove the environment and the results"

demo: $(STAMP)
	$(VENV)/bin/pytest --harness=mini-swe-agent --harness=pi

test: lint docs unit fast rollouts

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

# By module: what a module's tests share, such as a whole suite judged with each fault, is made once and not once a worker.
unit: $(STAMP)
	$(VENV)/bin/pytest tests -n 2 --dist loadscope
	$(VENV)/bin/pytest --proxy=bundled -n 2
	$(VENV)/bin/pytest --runtime=bundled
	$(VENV)/bin/pytest --verifier=local

# One scenario of each row that is fast, on every change.
fast: $(STAMP)
	$(VENV)/bin/pytest --harness=fast -n 2

rollouts: $(STAMP)
	$(VENV)/bin/pytest --harness=mini-swe-agent --harness=pi -n 2
	$(VENV)/bin/pytest --replay .harness/evidence

# Not --quiet: what is not printed is not counted, and --strict lets it pass.
docs: $(STAMP)
	$(VENV)/bin/mkdocs build --strict

docs-commands: $(STAMP)
	$(VENV)/bin/pytest tests/docs/slow_commands.py -p no:cacheprovider

# With docker and podman running; the image that both need is bootstrapped into the cache if it is not there.
sandboxes: $(STAMP)
	$(VENV)/bin/python -m pytest_harness.provision.base_image docker podman
	$(VENV)/bin/pytest tests/sandboxes/in_containers.py -n 2 -p no:cacheprovider
	$(VENV)/bin/pytest --harness=mini-swe-agent --harness=pi --scenario=edit_file --sandbox=docker --sandbox=podman -n 2 \
		--evidence-dir=.harness/sandboxes/evidence --report-dir=.harness/sandboxes/report

# Those of the containers are not part of the gate, which judges the local one: they take minutes.
verifiers: $(STAMP)
	$(VENV)/bin/python -m pytest_harness.provision.base_image docker podman
	$(VENV)/bin/pytest --verifier=docker -n 2 --report-dir=.harness/sandboxes/docker
	$(VENV)/bin/pytest --verifier=podman -n 2 --report-dir=.harness/sandboxes/podman

# The whole table, nightly or on request. It is red where it found something, and that is published too.
table: $(STAMP)
	$(VENV)/bin/pytest --harness=all -n 2

reports: $(STAMP)
	$(VENV)/bin/harness-conformance publish .harness/evidence --into reports --readme README.md

differential: $(STAMP)
	$(VENV)/bin/pytest tests/differential/against_vllm.py tests/differential/proxy_before_vllm.py tests/differential/suite_on_vllm.py -p no:cacheprovider
	$(VENV)/bin/pytest --harness=mini-swe-agent --harness=pi --scenario=edit_file --scenario=explore --scenario=two_at_once --engine=vllm -n 2

examples: $(STAMP)
	$(VENV)/bin/pytest tests/examples/from_the_wheel.py tests/examples/beside_other_plugins.py -n 2 --dist loadfile -p no:cacheprovider

trainers: $(STAMP)
	$(VENV)/bin/pytest tests/training/against_datasets.py tests/training/against_trl.py -p no:cacheprovider

cluster: $(STAMP)
	$(VENV)/bin/pytest tests/cluster/on_ray.py -p no:cacheprovider

benchmark: $(STAMP)
	$(VENV)/bin/python benchmarks/proxy/run.py

# The environment: Python >= 3.12 by uv, exactly what requirements.lock says, and the project itself.
$(STAMP): requirements.lock pyproject.toml | $(UV)
	$(UV) venv --quiet --clear --python "$$(cat .python-version)" $(VENV)
	$(UV) pip sync --quiet --compile-bytecode --python $(VENV) --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(VENV) --no-deps --no-build-isolation --editable .
	touch $@

# uv of the locked version, where the machine has none.
$(TOOLS)/bin/uv:
	python3 -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check "$$(grep -oE '^uv==[0-9.]+' requirements.lock)"

lock: $(TOOLS)/bin/uv
	$(TOOLS)/bin/uv pip compile pyproject.toml --extra wire --extra push --extra ray --group dev --universal --python-version "$$(cat .python-version)" \
		--generate-hashes --no-emit-index-url --no-header --no-annotate --quiet --output-file requirements.lock

clean:
	rm -rf $(VENV) $(TOOLS) .harness
