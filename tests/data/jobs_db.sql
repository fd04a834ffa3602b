-- A store as discovery scripts made it, with two runs in it.
CREATE TABLE runs (run_ts TEXT PRIMARY KEY, timestamp_iso TEXT NOT NULL, summary_json TEXT NOT NULL);
CREATE TABLE jobs (
    run_ts TEXT NOT NULL, job_id TEXT NOT NULL, title TEXT, location TEXT, company TEXT, source TEXT,
    url TEXT, posted_date TEXT, PRIMARY KEY (run_ts, job_id)
);
CREATE TABLE enriched (
    run_ts TEXT NOT NULL, job_id TEXT NOT NULL, features_json TEXT NOT NULL,
    PRIMARY KEY (run_ts, job_id)
);
CREATE TABLE scores (
    run_ts TEXT NOT NULL, job_id TEXT NOT NULL, score REAL, bucket TEXT, PRIMARY KEY (run_ts, job_id)
);
INSERT INTO runs VALUES ('20260201_010000', '2026-02-01T01:00:00+00:00', '{"timestamp_utc":"2026-02-01T01:00:00+00:00","counts":{"exported":2}}');
INSERT INTO runs VALUES ('20260202_010000', '2026-02-02T01:00:00+00:00', '{"timestamp_utc":"2026-02-02T01:00:00+00:00","counts":{"exported":1}}');
INSERT INTO jobs VALUES ('20260201_010000', 'a1', 'Senior Data Engineer', 'Remote', 'Acme', 'indeed', 'https://acme.com/jobs/1', '2026-01-30');
INSERT INTO jobs VALUES ('20260201_010000', 'a2', 'Cook', 'Singapore', 'Acme', 'linkedin', 'https://acme.com/jobs/2', NULL);
INSERT INTO jobs VALUES ('20260202_010000', 'a1', 'Senior Data Engineer', 'Remote', 'Acme', 'indeed', 'https://acme.com/jobs/1', '2026-01-30');
INSERT INTO enriched VALUES ('20260201_010000', 'a1', '{"source":"indeed","url":"https://acme.com/jobs/1","normalized_title":"senior data engineer","seniority":"Senior","stack_tags":["aws","python"],"remote_friendly":true}');
INSERT INTO scores VALUES ('20260201_010000', 'a1', 0.85, 'Exceptional');
