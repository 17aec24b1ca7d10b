"""A Faust application that counts words in a table: `python faust_app.py worker` with BOOTSTRAP, SOURCE, TARGET set.

For each word of SOURCE it writes the word and how often it came to TARGET, until it is ended. The table is in memory:
each start restores it from its changelog topic.
"""

import os

import faust

app = faust.App(
    f"counting-{os.environ['SOURCE']}",
    broker=f"kafka://{os.environ['BOOTSTRAP']}",
    store="memory://",
    topic_partitions=1,
    topic_disable_leader=True,
    web_enabled=False,
    consumer_auto_offset_reset="earliest",
    broker_commit_interval=0.2,
)
words = app.topic(os.environ["SOURCE"], value_type=bytes, value_serializer="raw")
counted = app.topic(os.environ["TARGET"], value_type=bytes, value_serializer="raw")
counts = app.Table("counts", default=int, partitions=1)


@app.agent(words)
async def count(stream: faust.Stream) -> None:
    async for word in stream:
        counts[word.decode()] += 1
        await counted.send(value=b"%b %d" % (word, counts[word.decode()]))


if __name__ == "__main__":
    app.main()
