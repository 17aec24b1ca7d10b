// Produce, consume in a group and list offsets with KafkaJS: `node kafkajs.js BOOTSTRAP TOPIC`.
const { Kafka, CompressionTypes, logLevel } = require('kafkajs')

const TIME = 1700000000000
const COUNT = 500

function message (n, partition) {
  return { key: `k${n}`, value: n % 7 ? `v${n}` : null, partition, timestamp: String(TIME + n), headers: { h: 'x' } }
}

async function main (bootstrap, topic) {
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.WARN })
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] })
  const producer = kafka.producer()
  await producer.connect()
  for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
    for (const partition of [0, 1]) {
      const messages = [...Array(COUNT).keys()].map(n => message(n, partition))
      await producer.send({ topic, messages, compression })
    }
  }
  await producer.disconnect()

  const consumer = kafka.consumer({ groupId: topic })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const got = [[], []]
  await new Promise(resolve => consumer.run({
    eachMessage: async ({ partition, message }) => {
      got[partition].push(message)
      if (got[0].length + got[1].length === 4 * COUNT) resolve()
    }
  }))
  await consumer.disconnect()
  for (const messages of got) {
    messages.forEach((found, offset) => {
      const sent = message(offset % COUNT)
      const value = found.value === null ? null : found.value.toString()
      if (found.offset !== String(offset) || found.key.toString() !== sent.key || value !== sent.value ||
        found.timestamp !== sent.timestamp || found.headers.h.toString() !== 'x') {
        throw new Error(`offset ${offset} is ${JSON.stringify(found)}`)
      }
    })
  }
  const committed = await admin.fetchOffsets({ groupId: topic, topics: [topic] })
  const ends = await admin.fetchTopicOffsets(topic)
  await admin.disconnect()
  const offsets = [...committed[0].partitions, ...ends].map(each => each.offset)
  if (offsets.some(offset => offset !== String(2 * COUNT))) throw new Error(`offsets ${offsets}`)
  console.log(`${4 * COUNT} records`)
}

main(process.argv[2], process.argv[3]).catch(error => {
  console.error(error)
  process.exit(1)
})
