"""Elections that an administrator asks for (KIP-460; Kafka's ``ReplicationControlManager.electLeaders``)."""

from __future__ import annotations

from typing import Any, Final

from kbroker.config import BrokerConfig
from kbroker.kraft.controller.partitions import (
    Election,
    accepts_leader,
    change_partition,
    effective_min_isr,
    is_elr_enabled,
)
from kbroker.kraft.controller.result import ControllerResult, check_record_count
from kbroker.kraft.image import NO_LEADER, MetadataImage
from kbroker.protocol.errors import ApiError, ErrorCode
from kbroker.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from kbroker.protocol.messages.records.metadata import PartitionChangeRecord

PREFERRED: Final = 0
UNCLEAN: Final = 1

Result = ElectLeadersResponse.ReplicaElectionResult
PartitionResult = ElectLeadersResponse.PartitionResult


def elect_leaders(
    image: MetadataImage, request: ElectLeadersRequest, config: BrokerConfig
) -> ControllerResult[list[Result]]:
    """Elect in the partitions named, or in all; of all, those that need no election are not answered."""
    if request.election_type not in (PREFERRED, UNCLEAN) and request.topic_partitions != []:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    is_about_all = request.topic_partitions is None
    if request.topic_partitions is None:
        wanted = [(topic.name, list(topic.partitions)) for topic in image.topics.by_id.values()]
    else:
        wanted = [(each.topic, each.partitions) for each in request.topic_partitions]
    results: list[Result] = []
    records: list[Any] = []
    for topic, partitions in wanted:
        result = Result(topic=topic)
        for number in partitions:
            try:
                records.append(_elect(image, topic, number, request.election_type, config))
                result.partition_result.append(PartitionResult(partition_id=number, error_message=None))
            except ApiError as error:
                if is_about_all and error.code == ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                result.partition_result.append(
                    PartitionResult(partition_id=number, error_code=error.code, error_message=error.message)
                )
        results.append(result)
    check_record_count(records)
    return ControllerResult(results, records)


def _elect(
    image: MetadataImage, name: str, number: int, election_type: int, config: BrokerConfig
) -> PartitionChangeRecord:
    topic = image.topics.by_name.get(name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    partition = topic.partitions.get(number)
    if partition is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    has_what_is_wanted = (
        partition.leader == partition.replicas[0] if election_type == PREFERRED else partition.leader != NO_LEADER
    )
    if has_what_is_wanted:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    record = change_partition(
        topic.id,
        number,
        partition,
        is_acceptable_leader=lambda replica: accepts_leader(image, replica, partition),
        min_isr=effective_min_isr(image, topic, config),
        elr_enabled=is_elr_enabled(image),
        election=Election.PREFERRED if election_type == PREFERRED else Election.UNCLEAN,
    )
    if record is not None:
        return record
    if election_type == PREFERRED:
        raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
