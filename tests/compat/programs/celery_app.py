"""Celery over kombu's Kafka transport, with BOOTSTRAP, QUEUE and RESULTS (a pipe) set.

`python celery_app.py COUNT` sends tasks; `celery -A celery_app worker` does them, each writes a line to the pipe.
"""

import os
import sys

from celery import Celery

app = Celery("kbroker-tasks", broker=f"confluentkafka://{os.environ['BOOTSTRAP']}")
app.conf.update(
    task_default_queue=os.environ["QUEUE"],
    task_ignore_result=True,
    # Kombu's transport has no fanout, which remote control needs.
    worker_enable_remote_control=False,
    broker_transport_options={"wait_time_seconds": 1},
)


@app.task(name="square")
def square(number: int) -> None:
    with open(os.environ["RESULTS"], "w") as results:
        results.write(f"{number * number}\n")


if __name__ == "__main__":
    for each in range(int(sys.argv[1])):
        square.delay(each)
