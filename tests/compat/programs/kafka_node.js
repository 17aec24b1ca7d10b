// Produce, consume without and with a group, list offsets with kafka-node, which knows no protocol after Kafka 0.10:
// `node kafka_node.js BOOTSTRAP TOPIC`.
const kafka = require('kafka-node')

const [, , kafkaHost, topic] = process.argv
const BATCH = 500
const GZIP = 1
const client = new kafka.KafkaClient({ kafkaHost })
const producer = new kafka.Producer(client, { requireAcks: 1 })

function fail (error) {
  console.error(error)
  process.exit(1)
}

function must (next) {
  return (error, result) => error ? fail(error) : next(result)
}

function send (attributes, next) {
  const messages = [...Array(BATCH).keys()].map(n => new kafka.KeyedMessage(`k${n}`, `v${n}`))
  producer.send([{ topic, messages, attributes, partition: 0 }], must(next))
}

function readAlone (next) {
  const options = { fromOffset: true, autoCommit: false, groupId: topic }
  const consumer = new kafka.Consumer(client, [{ topic, partition: 0, offset: 0 }], options)
  let count = 0
  consumer.on('error', fail)
  consumer.on('message', message => {
    if (message.offset !== count || message.value !== `v${count % BATCH}` || message.key !== `k${count % BATCH}`) {
      fail(`offset ${count} is ${JSON.stringify(message)}`)
    }
    if (++count === 3 * BATCH) next()
  })
}

function listOffsets (next) {
  new kafka.Offset(client).fetch([{ topic, partition: 0, time: -1, maxNum: 1 }], must(found => {
    if (found[topic][0][0] !== 3 * BATCH) fail(`the end is ${JSON.stringify(found)}`)
    next()
  }))
}

function readInGroup (next) {
  const group = new kafka.ConsumerGroup({ kafkaHost, groupId: topic, fromOffset: 'earliest', autoCommit: false }, [topic])
  let count = 0
  group.on('error', fail)
  group.on('message', () => {
    if (++count === 3 * BATCH) group.commit(true, must(() => group.close(true, next)))
  })
}

client.on('error', fail)
producer.on('ready', () => client.createTopics([{ topic, partitions: 1, replicationFactor: 1 }], must(() =>
  send(0, () => send(GZIP, () => send(0, () => readAlone(() => listOffsets(() => readInGroup(() => {
    console.log(`${3 * BATCH} records`)
    process.exit(0)
  })))))))))
