"""Counts an archive of WAL with Spark: each task has some segments, and the one after them for its last record.

    spark-submit spark_stats.py --by relation /path/to/archive

The archive must be mounted on all workers, and pg_walfpi be there. Segments may be compressed. Prints what
`pg_walfpi stats --by relation --format json` prints; --by cause, xid, time and pairs of keys work as well, and --relation
counts some relations alone. With --by whatif it prints what `pg_walfpi whatif --format json` prints, without CPU times.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

from pyspark.sql import SparkSession

# A segment, with whatever compression adds to its name.
SEGMENT = re.compile(r"^[0-9A-F]{24}(\.(gz|lz4|zst|bz2|xz))?$")


def count(program, by, relation, own, after):
    """Counts the records that start in the segments `own`; `after` has the end of the last one."""
    command = [program] + (["whatif"] if by == "whatif" else ["stats", "--by", by]) + ["--partial", "--jobs", "1"]
    if relation is not None:
        command += ["--relation", relation]
    if after is not None:
        command += ["--before", os.path.basename(after)[:24]]
    ran = subprocess.run(command + own + ([] if after is None else [after]), capture_output=True, text=True)
    # 1 and 2 say that something is wrong or was not examined: that is in the result, and merge says it again.
    if not ran.stdout:
        raise RuntimeError(ran.stderr)
    return ran.stdout


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--program", default="pg_walfpi")
    arguments.add_argument("--by", default="relation")
    arguments.add_argument("--relation", help="count these alone, as pg_walfpi stats --relation")
    arguments.add_argument("--group", type=int, default=64, help="segments in a task")
    arguments.add_argument("archive")
    asked = arguments.parse_args()
    names = sorted(name for name in os.listdir(asked.archive) if SEGMENT.match(name))
    paths = [os.path.join(asked.archive, name) for name in names]
    tasks = []
    for start in range(0, len(paths), asked.group):
        end = start + asked.group
        tasks.append((paths[start:end], paths[end] if end < len(paths) else None))
    program, by, relation = asked.program, asked.by, asked.relation
    spark = SparkSession.builder.appName("pg_walfpi").getOrCreate()
    counted = spark.sparkContext.parallelize(tasks, len(tasks)).map(lambda task: count(program, by, relation, *task))
    with tempfile.TemporaryDirectory() as directory:
        files = []
        for number, text in enumerate(counted.toLocalIterator()):
            files.append(os.path.join(directory, str(number)))
            with open(files[-1], "w") as file:
                file.write(text)
        merged = subprocess.run([program, "merge", "--format", "json"] + files, stdout=subprocess.PIPE, text=True)
    spark.stop()
    sys.stdout.write(merged.stdout)
    return 0 if merged.stdout else 2


if __name__ == "__main__":
    sys.exit(main())
