"""What ``test_tools.py`` has Apache Kafka's administration tools do, in this order, one command a line.

``orders`` has 3 partitions with records at 2023-11-14T22:13:20 and the 9 seconds after it; the groups ``readers`` and
``idle`` committed offsets of it and have no members, ``busy`` has one. Words in braces are files
(and an id) that the test makes.
"""

from __future__ import annotations

TOPICS = """
topics --create --topic made --partitions 2 --replication-factor 1 --config retention.ms=60000
topics --create --topic made
topics --create --topic made --if-not-exists
topics --create --topic placed --replica-assignment 1,1
topics --create --topic wrong --replica-assignment 1,9
topics --create --topic wrong --replication-factor 3
topics --create --topic wrong --partitions 0
topics --create --topic wrong --config no.such.key=1
topics --create --topic wrong/name
topics --list
topics --list --exclude-internal
topics --list --topic ma.*
topics --describe --topic orders
topics --describe --topic-id {topic_id}
topics --describe --topic made --partition-size-limit-per-response 1
topics --describe --topics-with-overrides --exclude-internal
topics --describe --under-replicated-partitions
topics --describe --under-min-isr-partitions
topics --describe --at-min-isr-partitions --topic made
topics --describe --unavailable-partitions
topics --describe --topic missing
topics --describe --topic missing --if-exists
topics --alter --topic made --partitions 4
topics --alter --topic made --partitions 3
topics --alter --topic made --partitions 4
topics --alter --topic missing --partitions 4
topics --alter --topic missing --partitions 4 --if-exists
topics --describe --topic made
topics --delete --topic placed
topics --delete --topic placed
topics --delete --topic placed --if-exists
"""

CONFIGS = """
configs --entity-type topics --entity-name made --describe
configs --entity-type topics --entity-name made --alter --add-config cleanup.policy=[compact,delete],segment.ms=77
configs --topic made --describe
configs --topic made --alter --delete-config segment.ms --add-config max.message.bytes=2048
configs --topic made --alter --delete-config segment.ms
configs --topic made --alter --add-config-file {properties}
configs --topic made --alter --add-config no.such.key=1
configs --topic made --alter --add-config segment.ms=soon
configs --topic made --describe
configs --topic orders --describe --all
configs --topic missing --describe
configs --entity-type topics --describe
configs --broker 1 --alter --add-config log.retention.ms=88
configs --broker 9 --describe
configs --broker 1 --describe
configs --broker-defaults --alter --add-config message.max.bytes=99999
configs --broker-defaults --describe
configs --broker-defaults --alter --delete-config message.max.bytes
configs --broker 1 --alter --delete-config log.retention.ms
configs --broker 1 --alter --add-config node.id=7
configs --broker-logger 1 --alter --add-config root=LOUD
configs --broker-logger 1 --alter --add-config no.such.logger=INFO
configs --client-metrics m --alter --add-config interval.ms=1000,metrics=[org.apache.kafka.]
configs --client-metrics m --describe
configs --client-metrics m --alter --add-config interval.ms=never
configs --group readers --alter --add-config consumer.session.timeout.ms=50000
configs --group readers --describe
configs --group readers --alter --delete-config consumer.session.timeout.ms
client-metrics --alter --name n --metrics org.apache.kafka.producer. --interval 5000 --match client_id=a.*
client-metrics --list
client-metrics --describe --name n
client-metrics --describe
client-metrics --delete --name n
client-metrics --delete --name missing
"""

GROUPS = """
consumer-groups --list
consumer-groups --list --state
consumer-groups --list --state empty
consumer-groups --list --state Stable,Empty
consumer-groups --list --type
consumer-groups --list --type classic
consumer-groups --list --type consumer --state
consumer-groups --list --type odd
consumer-groups --describe --group readers
consumer-groups --describe --group readers --offsets --verbose
consumer-groups --describe --group readers --members
consumer-groups --describe --group readers --members --verbose
consumer-groups --describe --group readers --state
consumer-groups --describe --group busy
consumer-groups --describe --group busy --offsets --verbose
consumer-groups --describe --group busy --members
consumer-groups --describe --group busy --members --verbose
consumer-groups --describe --group busy --state --verbose
consumer-groups --describe --group missing
consumer-groups --describe --group missing --members
consumer-groups --describe --all-groups --state
consumer-groups --validate-regex orders.*
consumer-groups --validate-regex orders(
groups --list
groups --list --consumer
groups --list --share
groups --list --streams
groups --list --group-type classic --protocol consumer
groups --list --protocol connect
"""

RESETS = """
consumer-groups --reset-offsets --group readers --topic orders --to-earliest
consumer-groups --reset-offsets --group readers --topic orders --to-earliest --dry-run
consumer-groups --reset-offsets --group readers --topic orders --to-earliest --execute
consumer-groups --reset-offsets --group readers --topic orders --to-latest --execute
consumer-groups --reset-offsets --group readers --topic orders --to-offset 2 --execute
consumer-groups --reset-offsets --group readers --topic orders --to-offset 1000000 --execute
consumer-groups --reset-offsets --group readers --topic orders --shift-by -2 --execute
consumer-groups --reset-offsets --group readers --topic orders --shift-by 1 --execute
consumer-groups --reset-offsets --group readers --topic orders --shift-by -1000 --execute
consumer-groups --reset-offsets --group readers --topic orders --to-datetime 2023-11-14T22:13:23.000 --execute
consumer-groups --reset-offsets --group readers --topic orders --to-datetime 2023-11-14T22:13:23.000Z --execute
consumer-groups --reset-offsets --group readers --topic orders --to-datetime 2040-01-01T00:00:00.000 --execute
consumer-groups --reset-offsets --group readers --topic orders --by-duration P1D --execute
consumer-groups --reset-offsets --group readers --topic orders --by-duration P36500D --execute
consumer-groups --reset-offsets --group readers --topic orders --to-current --execute
consumer-groups --reset-offsets --group readers --topic orders:0,2 --to-offset 1 --execute
consumer-groups --reset-offsets --group readers --topic orders:7 --to-offset 1 --execute
consumer-groups --reset-offsets --group readers --topic missing --to-earliest --execute
consumer-groups --reset-offsets --group readers --all-topics --to-latest --execute
consumer-groups --reset-offsets --group readers --all-topics --to-current --export
consumer-groups --reset-offsets --all-groups --all-topics --to-current --export
consumer-groups --reset-offsets --group readers --from-file {offsets} --dry-run
consumer-groups --reset-offsets --group readers --from-file {offsets} --execute
consumer-groups --reset-offsets --all-groups --from-file {group_offsets} --execute
consumer-groups --reset-offsets --all-groups --topic orders --to-earliest --dry-run
consumer-groups --reset-offsets --group readers --group idle --topic orders --to-offset 3 --execute
consumer-groups --reset-offsets --group new --topic orders --to-earliest --execute
consumer-groups --reset-offsets --group busy --topic orders --to-earliest --execute
consumer-groups --describe --all-groups --offsets
consumer-groups --delete-offsets --group readers --topic orders:0,1
consumer-groups --delete-offsets --group readers --topic missing
consumer-groups --delete-offsets --group busy --topic orders
consumer-groups --delete-offsets --group missing --topic orders
consumer-groups --describe --group readers
consumer-groups --delete --group readers
consumer-groups --delete --group readers
consumer-groups --delete --group busy
consumer-groups --delete --group idle --group missing
consumer-groups --delete --all-groups
consumer-groups --list
"""

LOGS = """
get-offsets --topic orders
get-offsets --topic orders --time latest
get-offsets --topic orders --time -2
get-offsets --topic orders --time max-timestamp
get-offsets --topic orders --time earliest-local
get-offsets --topic orders --time latest-tiered
get-offsets --topic orders --time earliest-pending-upload
get-offsets --topic orders --time 1700000003000
get-offsets --topic orders --time 2000000000000
get-offsets --topic orders --partitions 0,2
get-offsets --topic-partitions orders:1,made:0-2
get-offsets --topic missing
get-offsets --exclude-internal-topics
delete-records --offset-json-file {deletions}
get-offsets --topic orders --time earliest
delete-records --offset-json-file {wrong_deletions}
log-dirs --describe --topic-list orders,made
log-dirs --describe --topic-list orders --broker-list 1
log-dirs --describe --topic-list orders --broker-list 9
log-dirs --describe --topic-list missing
"""

CLUSTER = """
cluster cluster-id
cluster list-endpoints
cluster list-endpoints --include-fenced-brokers
cluster unregister --id 99
features describe
features version-mapping
features version-mapping --release-version 4.0
features feature-dependencies --feature metadata.version=25
features downgrade --feature share.version=1 --dry-run
features downgrade --feature share.version=1
features upgrade --feature share.version=2
features upgrade --feature share.version=99
features upgrade --feature no.such.feature=1
features upgrade --metadata 3.3-IV3
features upgrade --release-version 4.4 --dry-run
features disable --feature group.version
features upgrade --feature group.version=1
features describe
metadata-quorum describe --status
metadata-quorum describe --replication
metadata-quorum describe --replication --human-readable
leader-election --election-type preferred --all-topic-partitions
leader-election --election-type unclean --topic orders --partition 0
reassign-partitions --reassignment-json-file {plan} --execute
reassign-partitions --reassignment-json-file {plan} --verify
reassign-partitions --list
reassign-partitions --reassignment-json-file {plan} --cancel
reassign-partitions --reassignment-json-file {wrong_plan} --execute
reassign-partitions --generate --topics-to-move-json-file {move} --broker-list 1
acls --list
acls --add --allow-principal User:x --operation Read --topic orders
acls --remove --force --allow-principal User:x --operation Read --topic orders
transactions list
transactions describe --transactional-id missing
transactions describe-producers --topic orders --partition 0
transactions find-hanging --broker-id 1
share-groups --list
streams-groups --list
"""

COMMANDS = tuple(
    line for part in (TOPICS, CONFIGS, GROUPS, RESETS, LOGS, CLUSTER) for line in part.splitlines() if line
)
