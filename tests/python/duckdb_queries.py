"""Runs queries with DuckDB. Standard input: {"setup": text, "queries": {name: text}}; standard output: rows by name."""

import json
import sys

import duckdb

asked = json.load(sys.stdin)
connection = duckdb.connect()
for statement in asked["setup"]:
    connection.execute(statement)
rows = {}
for name, query in asked["queries"].items():
    result = connection.execute(query)
    columns = [column[0] for column in result.description]
    rows[name] = [
        {column: int(value) if isinstance(value, float) and value.is_integer() else value for column, value in zip(columns, row)}
        for row in result.fetchall()
    ]
json.dump(rows, sys.stdout)
