"""One scripted conversation with a broker, and its transcript in a form that two brokers' can be compared in.

A scenario is a function of a ``Conversation`` and a version. It is run once against Apache Kafka and once against
kbroker; what each answered is kept as plain dictionaries of the fields that the version carries. Values that differ by
nature (topic ids, ports, cluster ids, producer and member ids, the time of day) are replaced by names: the first topic
id that is seen in a conversation is ``<uuid 1>`` on both sides.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kbroker.protocol.apis import ApiKey
from kbroker.protocol.declarations import Struct
from kbroker.protocol.errors import ErrorCode
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.describe_configs import DescribeConfigsRequest
from kbroker.protocol.messages.describe_groups import DescribeGroupsRequest
from kbroker.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kbroker.protocol.messages.list_offsets import ListOffsetsRequest
from tests.patience import PATIENCE_S
from tests.reference.comparison import Deviation, Difference, differences, labelled
from tests.reference.deviations import DEVIATIONS, sift
from tests.wire import ConnectionClosedError, WireClient

Scenario = Callable[["Conversation", int], None]
AlterResource = IncrementalAlterConfigsRequest.AlterConfigsResource
AlterableConfig = IncrementalAlterConfigsRequest.AlterableConfig
DescribeResource = DescribeConfigsRequest.DescribeConfigsResource
CHANGING = {
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_CONFIGS,
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    ApiKey.UPDATE_FEATURES,
}
"""Requests whose changes Apache Kafka's broker takes up after they were answered."""
CLIENT_METRICS = 16
FOLLOWED, INTERVAL = "followed", "interval.ms"
"""The metrics, and the key, whose value is changed for nothing, to see when the broker knows of it."""
CLOCK_SLACK_MS = 2 * 60 * 60 * 1000
NAMING_FIELDS = (
    "name",
    "transactional_id",
    "topic",
    "topic_name",
    "index",
    "partition_index",
    "partition",
    "group_id",
    "group_instance_id",
    "member_id",
    "error_code",
)
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
"""The random part of a member id."""
ARRIVAL_SECONDS = 0.04
"""What is asked on another connection after so long, and after others were served, is surely served later."""
QUIET_SECONDS = 0.12
"""An answer that did not come in this time, while others did, is waited for by the broker."""
PASSERS_BY = 3
"""As many as Apache Kafka has threads that read requests: each has one of the connections."""
ROUNDS = 3
MILLISECONDS = re.compile(r"-92233702\d{11}|\b1\d{12}\b")
"""Times in texts; the other form is a bound that overflows when Kafka subtracts "for ever" from now."""
CLOSED = "<connection closed>"
SILENT = "<no answer>"


def is_now(time_ms: int) -> bool:
    """Does a number look like a time of today?"""
    return abs(time_ms - time.time() * 1000) < CLOCK_SLACK_MS


def _shown_time(found: re.Match[str]) -> str:
    number = int(found.group())
    return "<now>" if is_now(number) or number < 0 else found.group()


class Begun(NamedTuple):
    """A request whose answer is still to be taken."""

    api_key: int
    version: int
    name: str
    group: str


@dataclass
class Conversation:
    """Owner: the comparison. ``transcript`` has one entry for each question, in order."""

    bootstrap: str
    timeout_seconds: float = PATIENCE_S
    slowness: int = 1
    """Times that a scenario lets pass are longer by this, and above 1 the broker follows every change at once."""
    transcript: list[tuple[str, Any]] = field(default_factory=list)
    _clients: dict[str, WireClient] = field(default_factory=dict)
    _begun: dict[str, Begun] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _aliases: dict[tuple[str, object], str] = field(default_factory=dict)

    def ask(
        self,
        request: Any,
        version: int,
        *,
        label: str = "",
        connection: str = "main",
        note: bool = True,
        unordered: bool = False,
    ) -> Any:
        """Send a request, wait, note the answer; returns the response or None when the connection was closed.

        ``unordered`` is for answers whose order is that of a hash map in Apache Kafka: they are sorted before noting.
        """
        label = label or type(request).__name__.removesuffix("Request")
        answer, noted = self._taken(
            connection, lambda: self.client(connection).call(request, version), version, unordered=unordered
        )
        if note:
            self.transcript.append((self._shown(label), noted))
        if self.slowness > 1 and answer is not None and request.api_key in CHANGING:
            self.follow()
        return answer

    def _taken(self, connection: str, take: Callable[[], Any], version: int, *, unordered: bool) -> tuple[Any, Any]:
        """An answer, None when there is none, and its form in the transcript."""
        answer: Any = None
        try:
            answer = take()
            if unordered:
                self._sort(answer)
            return answer, self._plain(answer, version)
        except (ConnectionClosedError, ConnectionError):
            self.hang_up(connection)
            return None, CLOSED
        except TimeoutError:
            self.hang_up(connection)
            return None, SILENT

    def begin(self, request: Any, version: int, connection: str) -> None:
        """Send a request whose answer may wait, and see that it has arrived: see ``waits`` and ``end``."""
        self.send(request, version, connection)
        time.sleep(ARRIVAL_SECONDS * self.slowness)
        self.let_others_pass(self._begun[connection].group)

    def let_others_pass(self, group: str = "") -> None:
        """Ask what changes nothing until what was sent before has surely been taken up, on a busy machine too.

        A time alone says little there: these questions wait for the same threads, and those about a group for its
        coordinator.
        """
        request, version = (DescribeGroupsRequest(groups=[group]), 5) if group else (ApiVersionsRequest(), 0)
        for _ in range(ROUNDS):
            for number in range(PASSERS_BY):
                self.client(f"passer-by {number}").send(request, version)
            for number in range(PASSERS_BY):
                self.client(f"passer-by {number}").receive(request.api_key, version)

    def send(self, request: Any, version: int, connection: str) -> None:
        """Send a request; ``end`` takes its answer."""
        self.client(connection).send(request, version)
        name = type(request).__name__.removesuffix("Request")
        self._begun[connection] = Begun(request.api_key, version, name, getattr(request, "group_id", ""))

    def note_whether_it_waits(self, connection: str) -> None:
        """Note whether the answer of what was begun is still to come."""
        self.transcript.append((f"{connection} waits", self.is_waited_for(connection, QUIET_SECONDS * self.slowness)))

    def is_waited_for(self, connection: str, quiet_s: float) -> bool:
        """Whether no answer to what was sent comes for so long, and while others are answered."""
        own = [self.client(connection).socket]
        if select.select(own, [], [], quiet_s)[0]:
            return False
        self.let_others_pass(self._begun[connection].group)
        return not select.select(own, [], [], 0)[0]

    def end(self, connection: str, *, label: str = "", note: bool = True, unordered: bool = False) -> Any:
        """Wait for the answer of what was begun, and note it."""
        begun = self._begun.pop(connection)
        api_key, version = begun.api_key, begun.version
        answer, noted = self._taken(
            connection, lambda: self.client(connection).receive(api_key, version), version, unordered=unordered
        )
        if note:
            self.transcript.append((self._shown(label or f"{connection} {begun.name}"), noted))
        return answer

    def ask_bytes(self, frame: bytes, label: str, *, connection: str = "main") -> bytes | None:
        """Send a frame as it is and note the raw answer."""
        answer = None
        noted: Any
        try:
            client = self.client(connection)
            client.socket.sendall(frame)
            answer = client.receive_frame()
            noted = answer.hex(" ")
        except (ConnectionClosedError, ConnectionError):
            self.hang_up(connection)
            noted = CLOSED
        except TimeoutError:
            self.hang_up(connection)
            noted = SILENT
        self.transcript.append((self._shown(label), noted))
        return answer

    def note(self, label: str, value: object) -> None:
        """Add a finding of the scenario's own."""
        self.transcript.append((label, value))

    def note_answer(self, label: str, answer: Any, version: int) -> None:
        """Note a response that the scenario took a part of."""
        self.transcript.append((label, self._plain(answer, version)))

    def follow(self) -> None:
        """Wait until the broker has taken up every change that was made: Apache Kafka's does so after it answers.

        A broker takes up changes one after the other, as they stand in the metadata log, and shows a configuration
        first of all: so when it shows a second one that was made after it showed the first, it is done with the first
        and with all before it.
        """
        for _ in range(2):
            wanted = self._shown_interval() + 1
            config = AlterableConfig(name=INTERVAL, config_operation=0, value=str(wanted))
            resource = AlterResource(resource_type=CLIENT_METRICS, resource_name=FOLLOWED, configs=[config])
            answer = self.client().call(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]
            if answer.error_code != ErrorCode.NONE:
                raise AssertionError(f"nothing can be altered: {answer}")
            deadline = time.monotonic() + self.timeout_seconds
            while self._shown_interval() != wanted:
                if time.monotonic() > deadline:
                    raise TimeoutError("the broker does not follow")

    def _shown_interval(self) -> int:
        asked = DescribeResource(resource_type=CLIENT_METRICS, resource_name=FOLLOWED, configuration_keys=[INTERVAL])
        shown = self.client().call(DescribeConfigsRequest(resources=[asked]), 4).results[0].configs
        return next((int(each.value) for each in shown), 1000)

    def followed(self, ask: Callable[[], Any]) -> Any:
        """Ask when the broker has taken up what was changed before."""
        self.follow()
        return ask()

    def client(self, connection: str = "main") -> WireClient:
        if connection not in self._clients:
            client_id = "test" if connection == "main" else connection
            self._clients[connection] = WireClient(self.bootstrap, self.timeout_seconds, client_id)
        return self._clients[connection]

    def call_it(self, name: str, stem: str) -> None:
        """Show a name that this conversation made up as ``<stem 1>`` wherever it turns up, in texts too."""
        self._names[name] = f"<{stem} {len(self._names) + 1}>"

    def await_leaders(self, topic: str, partitions: int) -> None:
        """Wait until every partition answers as a leader: Apache Kafka answers CreateTopics some moments before."""
        asked = [
            ListOffsetsRequest.ListOffsetsPartition(partition_index=number, timestamp=-1)
            for number in range(partitions)
        ]
        request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=asked)])
        deadline = time.monotonic() + self.timeout_seconds
        while time.monotonic() < deadline:
            answer = self.ask(request, 5, note=False)
            if all(partition.error_code == ErrorCode.NONE for partition in answer.topics[0].partitions):
                return
        raise TimeoutError(f"topic {topic} has no leaders")

    def await_answer(self, request: Any, version: int, is_good: Callable[[Any], bool]) -> None:
        """Ask until the answer is the one that comes in the end: Apache Kafka does some things a little later."""
        deadline = time.monotonic() + self.timeout_seconds
        while time.monotonic() < deadline:
            if is_good(self.ask(request, version, note=False)):
                return
            time.sleep(0.05)
        raise TimeoutError(f"{type(request).__name__} is never answered as expected")

    def hang_up(self, connection: str = "main") -> None:
        client = self._clients.pop(connection, None)
        if client is not None:
            client.close()

    def close(self) -> None:
        for connection in list(self._clients):
            self.hang_up(connection)

    def _plain(self, value: Any, version: int) -> Any:
        if isinstance(value, Struct):
            return {
                name: self._named(name, self._plain(getattr(value, name), version), declared.kind)
                for name, declared in value.fields.items()
                if declared.versions.includes(version)
            }
        if isinstance(value, list):
            return [self._plain(each, version) for each in value]
        if isinstance(value, memoryview | bytearray):
            return bytes(value)
        if isinstance(value, str):
            value = self._shown(value)
            value = UUID.sub(lambda found: self._alias("member", found.group()), value)
            value = MILLISECONDS.sub(_shown_time, value)
        return value

    def know(self, topic_id: bytes) -> None:
        """Name a topic id now, so that an answer without an order is sorted alike on both sides."""
        self._alias("uuid", topic_id)

    def _sort(self, value: Any) -> None:
        """Sort every list of structs in a response by what names its elements."""
        if not isinstance(value, Struct):
            return
        for name in value.fields:
            inner = getattr(value, name)
            if isinstance(inner, list) and inner and isinstance(inner[0], Struct):
                inner.sort(key=self._sorting_key)
                for each in inner:
                    self._sort(each)
            else:
                self._sort(inner)

    def _sorting_key(self, value: Struct) -> tuple[str, ...]:
        uuid = self._aliases.get(("uuid", getattr(value, "topic_id", None)), "")
        names = (str(getattr(value, key, "")) for key in NAMING_FIELDS)
        return (
            *(UUID.sub(lambda found: self._aliases.get(("member", found.group()), ""), name) for name in names),
            uuid,
        )

    def _shown(self, text: str) -> str:
        for name in sorted(self._names, key=len, reverse=True):  # a name may begin another
            text = text.replace(name, self._names[name])
        return text

    def _named(self, name: str, value: Any, kind: str) -> Any:
        """Replace what differs between any two brokers by a name that says what it is."""
        if kind == "uuid":
            return value.hex() if value == bytes(16) else self._alias("uuid", value)
        if name == "cluster_id":
            return value and self._alias("cluster", value)
        if name.endswith("producer_id") and value >= 0:
            return self._alias("producer", value)
        if name == "session_id" and value:
            return self._alias("session", value)
        if name == "port":
            return "<port>"
        if kind == "records" and isinstance(value, Sized) and value is not None:
            return bytes(value).hex()  # type: ignore[call-overload]  # a view or bytes
        if kind == "int64" and isinstance(value, int) and is_now(value):
            return "<now>"
        return value

    def _alias(self, kind: str, value: object) -> str:
        known = self._aliases.setdefault((kind, value), "")
        if not known:
            number = sum(1 for each, _ in self._aliases if each == kind)
            self._aliases[kind, value] = known = f"<{kind} {number}>"
        return known


@dataclass(frozen=True)
class Question:
    """A scenario at one version; ``name`` is what tests and deviations call it."""

    name: str
    version: int
    scenario: Scenario

    def __str__(self) -> str:
        return f"{self.name}-v{self.version}"


QUESTIONS: list[Question] = []


def question(versions: range) -> Callable[[Scenario], Scenario]:
    """Register a scenario for each of ``versions``."""

    def register(scenario: Scenario) -> Scenario:
        QUESTIONS.extend(Question(scenario.__name__, version, scenario) for version in versions)
        return scenario

    return register


SLOWNESS = (1, 4, 16)
"""Of the attempts to get the same answers."""


def ask_both(
    asked: Question, reference: str, kbroker: str, deviations: Sequence[Deviation] = DEVIATIONS
) -> tuple[dict[str, Any], list[Difference], list[Deviation]]:
    """Apache Kafka's transcript, the differences that are not meant, and the deviations that covered others.

    Apache Kafka's brokers see a change some moments after its answer, later on a busy machine: what differs is asked
    again, more slowly, and only what differs each time counts.
    """
    for slowness in SLOWNESS:
        left, right = (labelled(hold(asked, each, slowness)) for each in (reference, kbroker))
        open_differences, used = sift(differences(str(asked), left, right), deviations)
        if not open_differences:
            break
    return left, open_differences, used


def hold(asked: Question, bootstrap: str, slowness: int = 1) -> list[tuple[str, Any]]:
    """The transcript of one question to one broker."""
    conversation = Conversation(bootstrap, slowness=slowness)
    try:
        asked.scenario(conversation, asked.version)
    finally:
        conversation.close()
    return conversation.transcript
