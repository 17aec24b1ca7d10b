// A member of a group with KafkaJS: `node kafkajs_member.js BOOTSTRAP TOPIC GROUP`. What it prints and reads is in
// group_member.py.
const readline = require('readline')
const { Kafka, logLevel } = require('kafkajs')

// In the middle of a rebalance it is tried again.
async function patiently (attempt, triesLeft = 300) {
  try {
    return await attempt()
  } catch (error) {
    if (triesLeft === 0) throw error
    await new Promise(resolve => setTimeout(resolve, 100))
    return patiently(attempt, triesLeft - 1)
  }
}

async function main (bootstrap, topic, groupId) {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 100, retries: 50 } })
  const consumer = kafka.consumer({
    groupId, sessionTimeout: 30000, heartbeatInterval: 300, maxWaitTimeInMs: 100, metadataMaxAge: 1000
  })
  const next = new Map()
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    next.clear()
    console.log(`assigned ${payload.memberAssignment[topic] || []}`)
  })
  consumer.on(consumer.events.REBALANCING, () => console.log('assigned '))
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ partition, message }) => {
      next.set(partition, String(BigInt(message.offset) + 1n))
      console.log(`record ${message.value}`)
    }
  })
  for await (const _ of readline.createInterface({ input: process.stdin })) {
    await patiently(() => consumer.commitOffsets([...next].map(([partition, offset]) => ({ topic, partition, offset }))))
    console.log('committed')
  }
  await consumer.disconnect()
  // After a restart of the broker a socket may be left over that keeps this process up, as with Apache Kafka: the consumer
  // group goes on with the Broker object of its last join (ConsumerGroup.coordinator), connects it again for a heartbeat
  // or commit, and BrokerPool, which made a new one (createSeedBroker), closes only its own.
  process.exit(0)
}

main(...process.argv.slice(2)).catch(error => {
  console.error(error)
  process.exit(1)
})
