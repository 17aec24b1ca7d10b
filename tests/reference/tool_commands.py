"""What ``test_tools.py`` has Apache Kafka's administration tools do, in this order, one command a line.

``orders`` has 3 partitions with records at 2023-11-14T22:13:20 and the 9 seconds after it; the groups ``readers`` and
``idle`` committed offsets of it and have no members, ``busy`` has one. ``steady`` has two members, one of them static,
for the one partition of ``ledger``, in which the transactional id ``teller`` has a transaction open. Words in braces
are files (and an id) that the test makes, and options of many words.
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
topics --create --topic with.dot
topics --create --topic with_dot
topics --create --topic with.dot --if-not-exists --partitions 7 --replication-factor 9
topics --create --topic .
topics --create --topic ''
topics --create --topic wrong --partitions 2 --replication-factor 2
topics --create --topic wrong --replica-assignment 1:1
topics --create --topic wrong --replica-assignment -1
topics --create --topic wrong --replica-assignment 9:8
topics --create --topic wrong --config segment.bytes=1
topics --create --topic wrong --config cleanup.policy=never
topics --create --topic wrong --config min.compaction.lag.ms=5 --config max.compaction.lag.ms=2
topics --create --topic wrong --config remote.storage.enable=true
topics --create --topic low --config min.insync.replicas=2 --config retention.ms=1 --config cleanup.policy=compact
topics --list
topics --list --exclude-internal
topics --list --topic ma.*
topics --describe --topic orders
topics --describe --topic-id {topic_id}
topics --describe --topic-id AAAAAAAAAAAAAAAAAAAABB
topics --describe --topic-id AAAAAAAAAAAAAAAAAAAABB --if-exists
topics --describe --topic-id zz
topics --describe --topic w.*,low
topics --describe --topic __consumer_offsets
topics --describe --exclude-internal
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
topics --alter --topic placed --partitions 3 --replica-assignment 1,1,1
topics --alter --topic placed --partitions 4 --replica-assignment 1,1,1,9
topics --alter --topic placed --partitions 4 --replica-assignment 1,1,1,1:1
topics --alter --topic placed --partitions 4 --replica-assignment 1,1
topics --alter --topic placed --partitions 4 --replica-assignment 1,1,1,1,1
topics --alter --topic placed --partitions 0
topics --alter --topic placed --partitions 2147483647
topics --alter --topic pl.* --partitions 5
topics --describe --topic placed
topics --delete --topic wi.*|low
topics --delete --topic placed
topics --list --topic pl.*
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
configs --topic made --alter --delete-config no.such.key
configs --topic made --alter --add-config segment.ms=5 --delete-config segment.ms
configs --topic made --alter --add-config cleanup.policy=
configs --topic made --alter --add-config compression.type=[gzip,zstd]
configs --topic made --alter --add-config compression.gzip.level=10
configs --topic made --alter --add-config message.timestamp.type=Never
configs --topic made --alter --add-config leader.replication.throttled.replicas=1
configs --topic made --alter --add-config leader.replication.throttled.replicas=[0:1,1:1]
configs --topic made --alter --add-config retention.ms=-2
configs --topic made --alter --add-config local.retention.ms=10000
configs --topic made --alter --add-config remote.copy.disable=true
configs --topic made --alter --add-config-file {wrong_properties}
configs --topic made --alter --add-config-file {empty}
configs --topic missing --alter --add-config segment.ms=5
configs --topic made --describe
configs --topic orders --describe --all
configs --topic missing --describe
configs --topic a+b --describe
configs --topic __consumer_offsets --describe
configs --entity-type topics --entity-default --describe
configs --entity-type brokers --describe
configs --broker x --describe
configs --entity-type topics --describe
configs --broker 1 --alter --add-config log.retention.ms=88
configs --broker 9 --describe
configs --broker 1 --describe
configs --broker-defaults --alter --add-config message.max.bytes=99999
configs --broker-defaults --describe
configs --broker-defaults --alter --delete-config message.max.bytes
configs --broker 1 --alter --delete-config log.retention.ms
configs --broker 1 --alter --add-config node.id=7
configs --broker 1 --alter --add-config log.cleaner.threads=100
configs --broker 1 --alter --add-config num.io.threads=17
configs --broker 1 --alter --add-config num.io.threads=3
configs --broker 1 --alter --add-config num.io.threads=16
configs --broker 1 --alter --add-config max.connections=-1
configs --broker 1 --alter --add-config max.connections.per.ip=0
configs --broker 1 --alter --add-config listener.name.plaintext.max.connections=5000
configs --broker 1 --alter --add-config listener.name.none.max.connections=5000
configs --broker 1 --alter --add-config log.segment.bytes=100
configs --broker 1 --alter --add-config log.retention.hours=1
configs --broker 1 --alter --add-config metric.reporters=no.such.Class
configs --broker 1 --alter --add-config follower.replication.throttled.rate=-1
configs --broker 1 --alter --add-config ssl.keystore.password=secret
configs --broker 1 --alter --add-config cordoned.log.dirs=/no/such
configs --broker 1 --describe
configs --broker 1 --alter --delete-config num.io.threads,max.connections.per.ip,no.such.key
configs --broker-defaults --alter --add-config listeners=PLAINTEXT://:1
configs --broker-defaults --alter --add-config ssl.keystore.location=/x
configs --broker-logger 1 --alter --add-config root=LOUD
configs --broker-logger 1 --alter --add-config no.such.logger=INFO
configs --broker-logger 1 --alter --delete-config no.such.logger
configs --broker-logger 9 --describe
configs --broker-logger x --describe
configs --client-metrics m --alter --add-config interval.ms=1000,metrics=[org.apache.kafka.]
configs --client-metrics m --describe
configs --client-metrics m --alter --add-config interval.ms=never
configs --client-metrics m --alter --add-config interval.ms=99
configs --client-metrics m --alter --add-config interval.ms=3600001
configs --client-metrics m --alter --add-config match=[nonsense]
configs --client-metrics m --alter --add-config match=[client_id=(]
configs --client-metrics m --alter --add-config no.such.key=1
configs --client-metrics m --describe --all
configs --client-metrics none --describe
configs --client-metrics m --alter --delete-config interval.ms,metrics
configs --entity-type client-metrics --describe
configs --group readers --alter --add-config consumer.session.timeout.ms=50000
configs --group readers --describe
configs --group readers --describe --all
configs --group nobody --describe
configs --group readers --alter --add-config consumer.session.timeout.ms=1
configs --group readers --alter --add-config consumer.heartbeat.interval.ms=60000
configs --group readers --alter --add-config share.auto.offset.reset=never
configs --group readers --alter --add-config streams.num.standby.replicas=99
configs --group readers --alter --add-config no.such.key=1
configs --entity-type groups --describe
configs --group readers --alter --delete-config consumer.session.timeout.ms
client-metrics --alter --name n --metrics org.apache.kafka.producer. --interval 5000 --match client_id=a.*
client-metrics --list
client-metrics --describe --name n
client-metrics --alter --name n --interval 1
client-metrics --alter --name n --match nonsense
client-metrics --alter --name n --interval '' --metrics ''
client-metrics --describe --name n
client-metrics --describe --name missing
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
consumer-groups --list --state assigning,preparingrebalance
consumer-groups --list --type share
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
consumer-groups --describe --group steady --members --verbose
consumer-groups --describe --group steady --state
consumer-groups --describe --group readers --group missing
consumer-groups --describe --all-groups --members
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
consumer-groups --reset-offsets --group readers --topic orders:0 --topic missing:1 --to-earliest --execute
consumer-groups --reset-offsets --group readers --topic orders --to-offset -5 --execute
consumer-groups --reset-offsets --group readers --topic orders --by-duration PT0S --execute
consumer-groups --reset-offsets --group readers --topic orders --by-duration P-1D --execute
consumer-groups --reset-offsets --group readers --topic orders --to-datetime 1969-01-01T00:00:00.000 --execute
consumer-groups --reset-offsets --group readers --topic orders --to-datetime 2023-11-14T22:13:23.000+05:00 --execute
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
consumer-groups --delete-offsets --group readers --topic orders:9
consumer-groups --delete-offsets --group readers --topic orders:2 --topic missing:1
consumer-groups --delete-offsets --group steady --topic ledger
consumer-groups --delete-offsets --group steady --topic orders:0
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
get-offsets --topic orders --time -6
get-offsets --topic orders --time -7
get-offsets --topic orders --time 0
get-offsets --topic o.* --partitions 0,9
get-offsets --topic-partitions (orders|made):1-,__c.*:3
get-offsets --topic-partitions orders:5
get-offsets --topic ledger
get-offsets --topic orders --partitions 0,2
get-offsets --topic-partitions orders:1,made:0-2
get-offsets --topic missing
get-offsets --exclude-internal-topics
delete-records --offset-json-file {deletions}
get-offsets --topic orders --time earliest
delete-records --offset-json-file {wrong_deletions}
delete-records --offset-json-file {deletions_twice}
log-dirs --describe --topic-list orders,made
log-dirs --describe --topic-list orders --broker-list 1
log-dirs --describe --topic-list orders --broker-list 9
log-dirs --describe --topic-list missing
log-dirs --describe --topic-list orders,missing --broker-list 1,9
"""

CLUSTER = """
cluster cluster-id
cluster list-endpoints
cluster list-endpoints --include-fenced-brokers
cluster unregister --id 99
cluster unregister --id -1
features describe
features version-mapping
features version-mapping --release-version 4.0
features feature-dependencies --feature metadata.version=25
features feature-dependencies --feature group.version=99
features feature-dependencies --feature no.such.feature=1
features downgrade --feature share.version=1 --dry-run
features downgrade --feature share.version=1
features upgrade --feature share.version=2
features upgrade --feature share.version=99
features upgrade --feature no.such.feature=1
features upgrade --metadata 3.3-IV3
features upgrade --release-version 4.4 --dry-run
features upgrade --metadata 4.4-IV2
features upgrade --feature transaction.version=3
features upgrade --feature transaction.version=2 --feature no.such.feature=1
features upgrade --feature no.such.feature=0
features upgrade --feature group.version=0
features downgrade --metadata 3.9 --dry-run
features downgrade --metadata 3.3-IV3 --unsafe
features downgrade --metadata 4.3 --unsafe --dry-run
features downgrade --feature transaction.version=1 --dry-run
features downgrade --feature kraft.version=0
features upgrade --feature kraft.version=2
features upgrade --feature kraft.version=1 --dry-run
features disable --feature metadata.version
features disable --feature no.such.feature
features disable --feature transaction.version --feature group.version --dry-run
features disable --feature group.version
features upgrade --feature group.version=1
features describe
metadata-quorum describe --status
metadata-quorum describe --replication
metadata-quorum describe --replication --human-readable
metadata-quorum --command-config {controller} add-controller
metadata-quorum --command-config {controller} add-controller --dry-run
metadata-quorum remove-controller --controller-id 9 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ
metadata-quorum remove-controller --controller-id 9 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ --dry-run
metadata-quorum remove-controller --controller-id -1 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ
leader-election --election-type preferred --all-topic-partitions
leader-election --election-type unclean --topic orders --partition 0
leader-election --election-type preferred --topic orders --partition 9
leader-election --election-type preferred --path-to-json-file {elections}
reassign-partitions --reassignment-json-file {plan} --execute
reassign-partitions --reassignment-json-file {plan} --verify
reassign-partitions --reassignment-json-file {plan} --execute --throttle 1000 --additional
configs --broker 1 --describe
configs --topic orders --describe
reassign-partitions --reassignment-json-file {plan} --verify
configs --broker 1 --describe
configs --topic orders --describe
reassign-partitions --reassignment-json-file {plan_of_missing} --execute
reassign-partitions --reassignment-json-file {plan_of_missing} --verify
reassign-partitions --reassignment-json-file {plan_of_directory} --execute
reassign-partitions --list
reassign-partitions --reassignment-json-file {plan} --cancel
reassign-partitions --reassignment-json-file {wrong_plan} --execute
reassign-partitions --generate --topics-to-move-json-file {move} --broker-list 1
reassign-partitions --generate --topics-to-move-json-file {move} --broker-list 9
acls --list
acls --list --topic orders --resource-pattern-type any
acls --add --allow-principal User:x --operation Read --topic orders
acls --remove --force --allow-principal User:x --operation Read --topic orders
delegation-tokens --command-config {empty} --create --max-life-time-period -1
delegation-tokens --command-config {empty} --describe
delegation-tokens --command-config {empty} --renew --renew-time-period -1 --hmac YWJj
delegation-tokens --command-config {empty} --expire --expiry-time-period -1 --hmac YWJj
transactions list
transactions list --duration-filter 3600000
transactions list --transactional-id-pattern t.*r
transactions list --transactional-id-pattern (
transactions describe --transactional-id teller
transactions describe-producers --topic ledger --partition 0
transactions describe-producers --topic orders --partition 0 --broker-id 1
transactions find-hanging --topic ledger
transactions find-hanging --topic ledger --max-transaction-timeout 1
transactions abort --topic ledger --partition 0 --start-offset 99
transactions abort --topic orders --partition 0 --producer-id 1 --producer-epoch 1 --coordinator-epoch 1
transactions forceTerminateTransaction --transactionalId missing
transactions forceTerminateTransaction --transactionalId teller
transactions describe --transactional-id teller
transactions describe-producers --topic ledger --partition 0
get-offsets --topic ledger
transactions describe --transactional-id missing
transactions describe-producers --topic orders --partition 0
transactions find-hanging --broker-id 1
share-groups --list
streams-groups --list
streams-application-reset --application-id new --input-topics orders,missing
streams-application-reset --application-id new --input-topics orders --to-offset 2
streams-application-reset --application-id new --input-topics orders --by-duration P1D --dry-run
consumer-groups --describe --group new
"""

RECORDS = """
console-consumer --topic orders --partition 0 --offset earliest --max-messages 2
console-consumer --topic orders --partition 0 --offset 2 --max-messages 1 {all_printed}
console-consumer --topic orders --partition 0 --offset 99 --timeout-ms 1000
console-consumer --topic ledger --partition 0 --offset earliest --isolation-level read_committed --timeout-ms 1000
client-compatibility-test --topic orders {supported}
"""

DYNAMIC_QUORUM = """
features upgrade --release-version 4.4
features describe
features downgrade --feature kraft.version=0
metadata-quorum describe --replication
metadata-quorum remove-controller --controller-id 1 --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ
metadata-quorum --command-config {controller} add-controller --dry-run
"""
"""Last: a quorum does not become static again."""

COMMANDS = tuple(
    line
    for part in (TOPICS, CONFIGS, GROUPS, RESETS, LOGS, CLUSTER, RECORDS, DYNAMIC_QUORUM)
    for line in part.splitlines()
    if line
)
