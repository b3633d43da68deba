"""ERR: the engine's errors reach the harness as what they are, and touch nothing else."""

import pytest

from pytest_harness.engines.scripted import Fault
from pytest_harness.session.wire_marks import both_modes, each_dialect, requirement
from pytest_harness.wire.outcome import Broken, expect, same
from pytest_harness.wire.talks import SdkError
from pytest_harness.wire.upstream import Answer

JSON = (("content-type", "application/json"),)
HTML = (("content-type", "text/html"),)
STREAM = (("content-type", "text/event-stream"),)


def raised(talk, **options):
    """The error that the SDK raises. Raises Broken if there is none."""
    try:
        said = talk.ask(**options)
    except SdkError as error:
        return error
    raise Broken("an error of the SDK", said)


@requirement("ERR-101")
@each_dialect
@pytest.mark.parametrize("status", [400, 422, 429, 500, 503])
def test_the_status_and_words_of_an_error_survive(case, dialect, status):
    words = f"The engine says {status} for a reason."
    stage = case.stage(faults=[Fault("status", status=status, message=words)])
    error = raised(case.talk(dialect, stage))
    if status < 500:
        same(error.status, status, "the status that the SDK tells")
    else:
        expect(error.status is not None and error.status >= 500, "a status of 5xx", f"status {error.status}: {error.cause}")
    expect(words in str(error.cause), f"an error that says {words!r}", str(error.cause))


@requirement("ERR-102")
@each_dialect
def test_retry_after_survives(case, dialect):
    stage = case.stage(faults=[Fault("status", status=429, message="Slow down.", headers={"retry-after": "2"})])
    error = raised(case.talk(dialect, stage))
    headers = error.headers or case.log.last_reply_headers
    same((error.status, headers.get("retry-after")), (429, "2"), "status and Retry-After")


@requirement("ERR-103")
@each_dialect
@both_modes
def test_a_context_overflow_reaches_the_harness(case, dialect, streamed):
    stage = case.stage(max_model_len=64)
    # A limit above the whole context, such as the SDK of messages has, would be refused for itself.
    error = raised(case.talk(dialect, stage, text="word " * 200), streamed=streamed, limit=16)
    expect(error.status in (400, 413), "status 400", f"status {error.status}: {error.cause}")
    expect("context length" in str(error.cause), "the engine's words on its context length", str(error.cause))


@requirement("ERR-104")
@both_modes
@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"<html><body>Bad gateway</body></html>", headers=HTML),
        Answer(b"null", headers=JSON),
        Answer(b"[]", headers=JSON),
        Answer(b'{"id": "x", "object": "chat.completion", "choices": []}', headers=JSON),
        Answer(b'{"id": "x", "choices": [{"index": 0, "mess', headers=JSON),
        Answer(b"", headers=JSON),
        Answer(b"", status=204),
        Answer(b'{"error": {"message": "out of memory", "code": 500}}', headers=JSON),
    ],
    ids=["html", "null", "list", "no_choices", "cut_json", "empty", "no_content", "error_with_200"],
)
def test_a_reply_that_is_none_becomes_an_error(case, answer, streamed):
    stage = case.stage(answer=lambda _body: answer)
    session = case.session()
    raised(case.talk("chat", stage, session), streamed=streamed)
    same(len(case.complete(session)), 0, "captured calls with a whole reply")


@requirement("ERR-105")
@both_modes
@pytest.mark.parametrize("after", [1, 5])
def test_a_reply_that_breaks_off_becomes_an_error(case, after, streamed):
    stage = case.stage(("Quite a few words before the end.", ()), faults=[Fault("cut", after=after)])
    session = case.session()
    raised(case.talk("chat", stage, session), streamed=streamed)
    same(len(case.complete(session)), 0, "captured calls with a whole reply")


@requirement("ERR-106")
def test_an_error_of_one_session_leaves_the_others_alone(case):
    healthy, sick = case.stage(), case.stage(faults=[Fault("status", status=400, message="Unsupported parameter: 'temperature'.")])
    before, after = case.session(), case.session()
    case.talk("chat", healthy, before).ask(temperature=0.7, seed=1)
    raised(case.talk("chat", sick), temperature=0.7, seed=1)
    case.talk("chat", healthy, after).ask(temperature=0.7, seed=1)
    first, second = (served.body for served in healthy.answered)
    same(second, first, "the request to the engine after another session's error")
    case.calls(after, 1)


@requirement("ERR-107")
@pytest.mark.parametrize(
    "words",
    [
        "Unsupported parameter: 'temperature'. Use the default.",
        "logprobs is not supported",
        "Unknown field `seed`: remove it",
        "max_tokens: use max_completion_tokens instead",
    ],
    ids=["temperature", "logprobs", "seed", "max_tokens"],
)
def test_the_text_of_an_error_changes_no_later_request(case, words):
    stage, session = case.stage(faults=[Fault("status", calls=[1], status=400, message=words)]), case.session()
    fields = {"temperature": 0.5, "seed": 7, "limit": 50}
    case.talk("chat", stage, session).ask(**fields)
    raised(case.talk("chat", stage, session), **fields)
    case.talk("chat", stage, session).ask(**fields)
    same(stage.served[-1].body, stage.served[0].body, "the request to the engine after the error")


@requirement("ERR-108")
@both_modes
def test_an_error_is_never_offered_for_training(case, streamed):
    stage, session = case.stage(faults=[Fault("status", calls=[0], status=400, message="No.")]), case.session()
    raised(case.talk("chat", stage, session), streamed=streamed)
    case.talk("chat", stage, session).ask(streamed=streamed)
    case.calls(session, 1)


@requirement("ERR-109")
@each_dialect
def test_an_error_inside_a_stream_is_raised(case, dialect):
    def answer(body):
        head = b'{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":'
        chunk = b"data: " + head + b'[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}\n\n'
        error = b'data: {"error":{"message":"The engine fell over.","type":"InternalServerError","code":500}}\n\ndata: [DONE]\n\n'
        return Answer(chunk + error, headers=STREAM) if body.get("stream") else Answer(error[6 : error.index(b"\n")], status=500)

    stage, session = case.stage(answer=answer), case.session()
    error = raised(case.talk(dialect, stage, session), streamed=True)
    expect("engine" in str(error.cause), "the engine's words", str(error.cause))
    same(len(case.complete(session)), 0, "captured calls with a whole reply")
