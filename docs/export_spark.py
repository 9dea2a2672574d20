"""Exports an archive by jobs of Spark, and gives the queries of export.sql their tables."""

import glob, json, os, re, subprocess, sys

def export_all(spark, archive, out, segments_a_job, program="pg_walfpi"):
    """Exports an archive that all workers see."""
    segment = re.compile(r"^[0-9A-F]{24}(\.partial)?(\.(gz|lz4|zst|bz2|xz))?$")
    newest = {}
    for name in sorted(os.listdir(archive)):
        if segment.match(name):
            whole = not name.startswith(name[:24] + ".partial")
            newest[name[8:24]] = max(newest.get(name[8:24], (False, "")), (whole, name))
    names = [newest[number][1] for number in sorted(newest)]
    history = sorted(glob.glob(os.path.join(archive, "*.history")))
    jobs = [(at, names[at:at + segments_a_job], names[at + segments_a_job:at + segments_a_job + 1])
            for at in range(0, len(names), segments_a_job)]
    os.makedirs(out, exist_ok=True)

    def run(job):
        at, own, after = job
        paths = [os.path.join(archive, name) for name in own + after] + history
        done = subprocess.run([program, "export", "--table", "all", "--jobs", "1", "--own", f"{own[0][:24]}..{own[-1][:24]}",
                               "-o", os.path.join(out, f"job={at:06d}")] + paths, capture_output=True, text=True)
        if done.returncode > 1:
            raise RuntimeError(f"{own[0]}: status {done.returncode}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
        return at

    # One task for each job: collect() runs as many at once as there are cores, toLocalIterator() one after the other.
    spark.sparkContext.parallelize(jobs, len(jobs)).map(run).collect()
    check(manifests(out))

def manifests(out):
    return [json.load(open(path)) for path in sorted(glob.glob(f"{out}/job=*/records/_manifest.json"))]

def check(exports):
    """Fails unless the exports are of one cluster, whole, and without a hole or an overlap."""
    systems = {export["totals"]["system_identifier"] for export in exports}
    if len(systems) != 1:
        sys.exit(f"several clusters: {systems}")
    if any(export["exit_status"] > 1 for export in exports):
        sys.exit("an export is not whole")
    own = sorted((export["own"]["start_lsn"], export["own"]["end_lsn"]) for export in exports)
    for (_, end), (start, _) in zip(own, own[1:]):
        if end != start:
            sys.exit(f"{'overlap' if start < end else 'hole'} at {min(start, end):X}")

def tables(spark, out):
    """The same names for the queries in Spark."""
    rows = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
    for table in ("records", "blocks", "images"):
        rows.parquet(f"{out}/job=*/{table}").createOrReplaceTempView(table)
    # Spark itself skips files whose name begins with an underscore.
    seen = [(job, manifest["read_start_lsn"], interval["start_lsn"], interval["redo_lsn"], interval["is_hidden"])
            for job, manifest in enumerate(manifests(out)) for interval in manifest["intervals"]]
    columns = "job long, read_start_lsn long, start_lsn long, redo_lsn long, is_hidden boolean"
    spark.createDataFrame(seen, columns).createOrReplaceTempView("seen")
