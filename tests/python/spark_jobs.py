
# Runs the example above it: ARCHIVE PROGRAM, queries in asked.json. Standard output: rows by name, and how many tasks of the export overlapped.

from pyspark.sql import SparkSession

archive, program = sys.argv[1:3]
os.makedirs("events", exist_ok=True)
spark = (SparkSession.builder.master("local[2]").appName("jobs").config("spark.ui.enabled", "false")
         .config("spark.eventLog.enabled", "true").config("spark.eventLog.compress", "false")
         .config("spark.eventLog.dir", "file://" + os.path.abspath("events"))
         .config("spark.sql.shuffle.partitions", "2").getOrCreate())
spark.sparkContext.setLogLevel("OFF")
export_all(spark, archive, "wal", 1, program)
tables(spark, "wal")
asked = json.load(open("asked.json"))
for statement in filter(str.strip, asked["views"].split(";\n")):
    spark.sql(statement)
found = {name: [row.asDict() for row in spark.sql(query.strip().rstrip(";")).collect()] for name, query in asked["queries"].items()}
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
