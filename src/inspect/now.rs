//! The time of day, for what is written down about a piece of work.

/// Now, to the second, in UTC: ISO 8601.
pub(crate) fn now_text() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
