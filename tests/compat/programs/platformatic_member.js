// A member of a group with @platformatic/kafka: `node platformatic_member.js BOOTSTRAP TOPIC GROUP`. What it prints and
// reads is in group_member.py.
const readline = require('readline')
const { pathToFileURL } = require('url')

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
  // It is an ES module, which NODE_PATH finds for require only.
  const { Consumer, stringDeserializers } = await import(pathToFileURL(require.resolve('@platformatic/kafka')))
  const consumer = new Consumer({
    groupId, clientId: 'platformatic', bootstrapBrokers: [bootstrap], deserializers: stringDeserializers, retries: 50,
    retryDelay: 100, sessionTimeout: 30000, rebalanceTimeout: 30000, heartbeatInterval: 300, metadataMaxAge: 1000
  })
  const next = new Map()
  consumer.on('consumer:group:join', ({ assignments }) => {
    next.clear()
    const mine = (assignments || []).find(each => each.topic === topic)
    console.log(`assigned ${mine ? mine.partitions : ''}`)
  })
  consumer.on('consumer:group:rebalance', () => console.log('assigned '))
  const stream = await consumer.consume({
    topics: [topic], mode: 'committed', fallbackMode: 'earliest', autocommit: false, maxWaitTime: 100
  })
  stream.on('error', error => console.error(error))
  stream.on('data', message => {
    next.set(message.partition, message)
    console.log(`record ${message.value}`)
  })
  for await (const _ of readline.createInterface({ input: process.stdin })) {
    await patiently(async () => {
      for (const message of next.values()) await message.commit()
    })
    console.log('committed')
  }
  await consumer.close(true)
  // After a restart of the broker a socket of its now and then outlives the close, and would keep this process up.
  process.exit(0)
}

main(...process.argv.slice(2)).catch(error => {
  console.error(error)
  process.exit(1)
})
