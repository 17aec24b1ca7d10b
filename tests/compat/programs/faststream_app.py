"""A FastStream application: `python faststream_app.py BOOTSTRAP SOURCE TARGET COUNT` answers COUNT numbers and ends."""

import asyncio
import sys

from faststream import FastStream
from faststream.kafka import KafkaBroker

bootstrap, source, target, count = sys.argv[1:]
broker = KafkaBroker(bootstrap)
app = FastStream(broker)
left = iter(range(int(count) - 1, -1, -1))


@broker.subscriber(source, group_id="faststream", auto_offset_reset="earliest")
@broker.publisher(target)
async def double(number: int) -> int:
    if next(left) == 0:
        asyncio.get_running_loop().call_later(2, app.exit)
    return 2 * number


asyncio.run(app.run())
