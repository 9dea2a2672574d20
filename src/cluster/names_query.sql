SELECT coalesce(json_agg(json_build_object(
         'spc_oid', CASE c.reltablespace WHEN 0 THEN d.dattablespace ELSE c.reltablespace END::bigint,
         'db_oid', CASE WHEN c.relisshared THEN 0 ELSE d.oid::bigint END,
         'rel_number', pg_catalog.pg_relation_filenode(c.oid)::bigint,
         'database', CASE WHEN NOT c.relisshared THEN d.datname END,
         'schema', n.nspname,
         'relation', c.relname,
         'oid', c.oid::bigint,
         'kind', c.relkind,
         'persistence', c.relpersistence,
         'access_method_oid', c.relam::bigint,
         'owner_oid', coalesce(i.indrelid, t.oid)::bigint,
         'schema_oid', n.oid::bigint,
         'system_identifier', s.system_identifier::text)), '[]')
  FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database()
  LEFT JOIN pg_catalog.pg_index AS i ON i.indexrelid = c.oid
  LEFT JOIN pg_catalog.pg_class AS t ON c.relkind = 't' AND t.reltoastrelid = c.oid
 CROSS JOIN pg_catalog.pg_control_system() AS s
 WHERE pg_catalog.pg_relation_filenode(c.oid) IS NOT NULL
