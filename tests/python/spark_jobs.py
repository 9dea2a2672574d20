
# Runs the example above it: ARCHIVE PROGRAM. Standard output: sums by name, and how many tasks of the export overlapped.

from pyspark.sql import SparkSession

archive, program = sys.argv[1:3]
os.makedirs("events", exist_ok=True)
spark = (SparkSession.builder.master("local[2]").appName("jobs").config("spark.ui.enabled", "false")
         .config("spark.eventLog.enabled", "true").config("spark.eventLog.compress", "false")
         .config("spark.eventLog.dir", "file://" + os.path.abspath("events"))
         .config("spark.sql.shuffle.partitions", "2").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
export_all(spark, archive, "wal", 1, program)
found = {}
table = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
table.parquet("wal/job=*/records").createOrReplaceTempView("records")
sums = "count(*) AS records, sum(record_bytes) AS record_bytes, sum(fpi_count) AS fpi_count, sum(fpi_bytes) AS fpi_bytes, sum(fpi_raw_bytes) AS fpi_raw_bytes"
for name, keys in (("rmgr", "rmgr"), ("record", "rmgr, record")):
    found[name] = [row.asDict() for row in spark.sql(f"SELECT {keys}, {sums} FROM records GROUP BY {keys}").collect()]
try:
    export_all(spark, archive, "broken", 1, "/nonexistent")
    found["failed_job_is_an_error"] = False
except Exception:
    found["failed_job_is_an_error"] = True
spark.stop()
tasks = []
for path in glob.glob("events/**/*", recursive=True):
    for line in open(path) if os.path.isfile(path) and not path.endswith(".crc") else ():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("Event") == "SparkListenerTaskEnd" and event.get("Stage ID") == 0:
            tasks.append((event["Task Info"]["Launch Time"], event["Task Info"]["Finish Time"]))
found["most_at_once"] = max((sum(1 for start, end in tasks if start <= at < end) for at, _ in tasks), default=0)
print(json.dumps(found))
