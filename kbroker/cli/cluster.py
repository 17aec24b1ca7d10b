"""``kbroker cluster``: brokers, health, quorum, features, data directories."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, Final

import click

from kbroker.cli import CommandGroup
from kbroker.cli.cluster_client import Cluster, check, run
from kbroker.cli.output import client_options, format_option, show, show_pairs
from kbroker.peer import UnsupportedByPeerError
from kbroker.protocol.apis import API_BY_KEY, ApiKey
from kbroker.protocol.messages.api_versions import ApiVersionsRequest
from kbroker.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kbroker.protocol.messages.describe_quorum import DescribeQuorumRequest
from kbroker.types import METADATA_TOPIC

WATCH_S: Final = 0.5


@click.group(cls=CommandGroup)
def cluster() -> None:
    """Show the cluster: brokers, health, quorum, features, directories."""


@cluster.command()
@click.option("--apis", is_flag=True, help="The APIs and versions that the broker serves.")
@format_option
@client_options
def info(*, apis: bool, shape: str, bootstrap: str, timeout_ms: int) -> None:
    """Show the brokers and which of them is the controller."""

    async def brokers(cluster: Cluster) -> list[dict[str, Any]]:
        answer = await cluster.metadata()
        return [
            {
                "broker": each.node_id,
                "address": f"{each.host}:{each.port}",
                "rack": each.rack,
                "controller": each.node_id == answer.controller_id,
                "cluster": answer.cluster_id,
            }
            for each in sorted(answer.brokers, key=lambda each: each.node_id)
        ]

    async def served(cluster: Cluster) -> list[dict[str, Any]]:
        return [
            {
                "key": key,
                "api": API_BY_KEY[ApiKey(key)].name if key in API_BY_KEY else "?",
                "oldest": oldest,
                "latest": latest,
            }
            for key, (oldest, latest) in sorted(cluster.bootstrap.versions.items())
        ]

    show(shape, run(bootstrap, served if apis else brokers, timeout_ms))


@cluster.command()
@click.option("--watch", "-w", is_flag=True, help="Go on, and say so whenever something changes.")
@click.option("--exit-when-healthy", "-e", is_flag=True, help="Wait until all is well.")
@format_option
@client_options
def health(*, watch: bool, exit_when_healthy: bool, shape: str, bootstrap: str, timeout_ms: int) -> None:
    """Say whether all partitions are led and in sync; status 1 when not."""

    async def work(cluster: Cluster) -> bool:
        said: dict[str, Any] = {}
        while True:
            found = await _health(cluster)
            is_over = found["healthy"] if exit_when_healthy else not watch
            if found != said and (watch or is_over):
                if said and shape == "table":
                    click.echo()
                show_pairs(shape, found)
                said = found
            if is_over:
                return bool(found["healthy"])
            await asyncio.sleep(WATCH_S)

    sys.exit(0 if run(bootstrap, work, timeout_ms) else 1)


async def _health(cluster: Cluster) -> dict[str, Any]:
    answer = await cluster.metadata(None)
    partitions = [(topic.name, each) for topic in answer.topics for each in topic.partitions]
    leaderless = [f"{name}-{each.partition_index}" for name, each in partitions if each.leader_id < 0]
    lagging = [
        f"{name}-{each.partition_index}" for name, each in partitions if len(each.isr_nodes) < len(each.replica_nodes)
    ]
    return {
        "healthy": bool(answer.brokers) and not leaderless and not lagging,
        "brokers": sorted(each.node_id for each in answer.brokers),
        "controller": answer.controller_id,
        "topics": len(answer.topics),
        "partitions": len(partitions),
        "without a leader": sorted(leaderless),
        "not all in sync": sorted(lagging),
    }


@cluster.command()
@format_option
@client_options
def quorum(*, shape: str, bootstrap: str, timeout_ms: int) -> None:
    """Show the metadata quorum: leader, voters, observers and their lag."""
    asked = DescribeQuorumRequest.TopicData(
        topic_name=METADATA_TOPIC, partitions=[DescribeQuorumRequest.PartitionData(partition_index=0)]
    )

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        answer = await cluster.ask(DescribeQuorumRequest(topics=[asked]))
        check("quorum", answer.error_code, answer.error_message)
        (partition,) = answer.topics[0].partitions
        check("quorum", partition.error_code, partition.error_message)
        end = max((each.log_end_offset for each in partition.current_voters), default=0)
        rows = []
        for role, replicas in (("voter", partition.current_voters), ("observer", partition.observers)):
            rows += [
                {
                    "node": each.replica_id,
                    "role": "leader" if each.replica_id == partition.leader_id else role,
                    "epoch": partition.leader_epoch,
                    "end offset": each.log_end_offset,
                    "lag": end - each.log_end_offset,
                    "high watermark": partition.high_watermark,
                }
                for each in replicas
            ]
        return rows

    show(shape, run(bootstrap, work, timeout_ms))


@cluster.command()
@format_option
@client_options
def features(*, shape: str, bootstrap: str, timeout_ms: int) -> None:
    """Show the feature levels: what is supported, what is finalized."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        request = ApiVersionsRequest(client_software_name="kbroker-cli", client_software_version="1")
        try:
            # From version 4 on features whose least level is 0 are told, too.
            answer = await cluster.ask(request, at_most=4)
        except UnsupportedByPeerError:
            return []
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        return [
            {
                "feature": each.name,
                "supported from": each.min_version,
                "to": each.max_version,
                "finalized": finalized.get(each.name),
            }
            for each in sorted(answer.supported_features, key=lambda each: each.name)
        ]

    show(shape, run(bootstrap, work, timeout_ms), empty="this broker tells of no features")


@cluster.command()
@click.option("--partitions", "-p", is_flag=True, help="A row for each partition.")
@format_option
@client_options
def logdirs(*, partitions: bool, shape: str, bootstrap: str, timeout_ms: int) -> None:
    """Show the data directories of all brokers with their sizes in bytes."""

    async def work(cluster: Cluster) -> list[dict[str, Any]]:
        rows = []
        for broker in (await cluster.metadata()).brokers:
            answer = await cluster.ask(DescribeLogDirsRequest(topics=None), broker=broker.node_id)
            check(f"broker {broker.node_id}", answer.error_code)
            for each in answer.results:
                check(f"{each.log_dir} of broker {broker.node_id}", each.error_code)
                home = {"broker": broker.node_id, "directory": each.log_dir}
                held = [(topic.name, partition) for topic in each.topics for partition in topic.partitions]
                if partitions:
                    rows += [
                        {**home, "topic": name, "partition": one.partition_index, "size": one.partition_size}
                        for name, one in sorted(held, key=lambda pair: (pair[0], pair[1].partition_index))
                    ]
                else:
                    size = sum(one.partition_size for _, one in held)
                    rows.append(
                        {
                            **home,
                            "partitions": len(held),
                            "size": size,
                            "disk": each.total_bytes,
                            "free": each.usable_bytes,
                        }
                    )
        return rows

    show(shape, run(bootstrap, work, timeout_ms), empty="no partitions")
