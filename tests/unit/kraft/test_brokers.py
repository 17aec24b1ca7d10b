"""Registration, heartbeats, fencing and controlled shutdown of brokers."""

from typing import Any

import pytest

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.brokers import (
    BrokerSessions,
    broker_heartbeat,
    fence_stale_broker,
    register_broker,
)
from kbroker.kraft.controller.features import SUPPORTED
from kbroker.kraft.image import MetadataImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kbroker.protocol.messages.broker_registration import BrokerRegistrationRequest
from tests.unit.kraft.cluster_image import (
    broker_record,
    directory_of,
    features,
    image_of,
    partition_record,
    the_partition,
    three_brokers,
)

CONFIG = BrokerConfig({})


def request(broker_id: int = 1, incarnation: bytes = b"new-incarnation!", **fields: Any) -> BrokerRegistrationRequest:
    feature = BrokerRegistrationRequest.Feature
    fields.setdefault("log_dirs", [directory_of(broker_id)])
    fields.setdefault(
        "features",
        [feature(name=n, min_supported_version=low, max_supported_version=up) for n, (low, up) in SUPPORTED.items()],
    )
    return BrokerRegistrationRequest(
        broker_id=broker_id, cluster_id="cluster", incarnation_id=incarnation, rack=None, **fields
    )


def register(
    image: MetadataImage, asked: BrokerRegistrationRequest, *, valid_session: bool = False
) -> tuple[MetadataImage, int]:
    result = register_broker(
        image,
        asked,
        cluster_id="cluster",
        next_offset=image.offset + 1,
        has_valid_session=valid_session,
        config=CONFIG,
    )
    return image_of(*result.records, base=image), result.reply.broker_epoch


def refusal(image: MetadataImage, asked: BrokerRegistrationRequest, *, valid_session: bool = False) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        register(image, asked, valid_session=valid_session)
    return caught.value.code


def test_a_new_broker_is_fenced_and_its_epoch_is_the_logs_next_offset() -> None:
    before = image_of(*features())
    after, epoch = register(before, request())
    assert epoch == before.offset + 1
    assert after.cluster.brokers[1].fenced
    assert after.cluster.brokers[1].epoch == epoch


def test_the_same_incarnation_keeps_its_epoch_and_state() -> None:
    image, epoch = register(image_of(*features(), broker_record(1)), request(incarnation=b"incarnation-0001"))
    assert epoch == 101
    assert not image.cluster.brokers[1].fenced


def test_a_second_broker_with_a_live_brokers_id_is_refused() -> None:
    image = image_of(*features(), broker_record(1))
    assert refusal(image, request(), valid_session=True) is ErrorCode.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (request(log_dirs=[]), ErrorCode.INVALID_REGISTRATION),
        (request(log_dirs=[bytes(15) + b"\x05"]), ErrorCode.INVALID_REGISTRATION),
        (request(log_dirs=[b"a" * 16, b"a" * 16]), ErrorCode.INVALID_REGISTRATION),
        (request(log_dirs=[directory_of(2)]), ErrorCode.INVALID_REGISTRATION),
        (request(features=[]), ErrorCode.UNSUPPORTED_VERSION),
        (request(is_migrating_zk_broker=True), ErrorCode.BROKER_ID_NOT_REGISTERED),
    ],
)
def test_a_registration_that_cannot_be_is_refused(asked: BrokerRegistrationRequest, code: ErrorCode) -> None:
    assert refusal(image_of(*features(), broker_record(2)), asked) is code


def test_another_clusters_broker_is_refused() -> None:
    asked = request()
    asked.cluster_id = "other"
    assert refusal(image_of(*features()), asked) is ErrorCode.INCONSISTENT_CLUSTER_ID


def test_a_new_incarnation_without_a_clean_shutdown_loses_isr_and_eligibility() -> None:
    image, _ = register(three_brokers(partition_record(replicas=(1,))), request())
    partition = the_partition(image)
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (), (1,))


def test_a_new_incarnation_after_a_clean_shutdown_stays_eligible() -> None:
    image, _ = register(three_brokers(partition_record(replicas=(1,))), request(previous_broker_epoch=101))
    partition = the_partition(image)
    assert (partition.leader, partition.isr, partition.elr) == (-1, (), (1,))


class Heartbeats:
    """A controller that folds what heartbeats bring about."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.sessions = BrokerSessions(9000)
        for broker in image.cluster.brokers.values():
            self.sessions.touch(broker.id, 0, image.offset)

    def beat(
        self, broker_id: int = 1, *, offset: int | None = None, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        asked = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=100 + broker_id,
            current_metadata_offset=self.image.offset if offset is None else offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
        )
        result = broker_heartbeat(self.image, self.sessions, asked, self.image.offset + 1, CONFIG)
        self.sessions.touch(broker_id, 0, asked.current_metadata_offset)
        if result.records:
            self.image = image_of(*result.records, base=self.image)
        return result.reply


def test_a_fenced_broker_serves_once_it_has_seen_its_registration() -> None:
    controller = Heartbeats(image_of(*features(), broker_record(1, fenced=True)))
    reply = controller.beat(offset=0)
    assert (reply.is_caught_up, reply.is_fenced) == (False, True)
    reply = controller.beat(want_fence=True)
    assert (reply.is_caught_up, reply.is_fenced) == (True, True)
    reply = controller.beat()
    assert not reply.is_fenced
    assert controller.image.cluster.brokers[1].is_active


def test_a_broker_that_leads_goes_through_controlled_shutdown() -> None:
    controller = Heartbeats(three_brokers(partition_record()))
    reply = controller.beat(want_shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced) == (False, False)
    assert controller.image.cluster.brokers[1].in_controlled_shutdown
    assert the_partition(controller.image).leader == 2
    assert not controller.beat(want_shut_down=True).should_shut_down, "the others have not seen it yet"
    controller.beat(2)
    controller.beat(3)
    reply = controller.beat(want_shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced) == (True, True)
    assert controller.image.cluster.brokers[1].fenced


def test_a_broker_that_leads_nothing_may_go_at_once() -> None:
    controller = Heartbeats(three_brokers(partition_record()))
    assert controller.beat(3, want_shut_down=True).should_shut_down
    assert controller.image.cluster.brokers[3].fenced


def test_a_lone_broker_hands_over_to_nobody_and_goes() -> None:
    controller = Heartbeats(image_of(*features(), broker_record(1)))
    assert controller.beat(want_shut_down=True).should_shut_down


def test_a_stale_epoch_is_refused() -> None:
    controller = Heartbeats(image_of(*features(), broker_record(1)))
    with pytest.raises(ApiError, match="STALE_BROKER_EPOCH"):
        broker_heartbeat(
            controller.image,
            controller.sessions,
            BrokerHeartbeatRequest(broker_id=1, broker_epoch=5),
            0,
            CONFIG,
        )


def test_a_broker_that_was_not_heard_of_is_fenced_one_at_a_time() -> None:
    controller = Heartbeats(three_brokers(partition_record()))
    controller.sessions.touch(3, 8000, 5)
    result = fence_stale_broker(controller.image, controller.sessions, 9500, CONFIG)
    assert result.reply == 1
    image = image_of(*result.records, base=controller.image)
    assert the_partition(image).leader == 2
    result = fence_stale_broker(image, controller.sessions, 9500, CONFIG)
    assert result.reply == 2
    image = image_of(*result.records, base=image)
    assert the_partition(image).leader == 3
    assert fence_stale_broker(image, controller.sessions, 9500, CONFIG).reply is None
