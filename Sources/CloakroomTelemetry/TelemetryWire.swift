package import CloakroomCore

/// Parsers of data from collectors and scrapers, exposed for fuzzing.
package enum TelemetryWire {
    /// The number of spans that a collector's response rejects.
    package static func rejectedSpans(_ body: [UInt8]) -> Int {
        OTLPResponse.rejectedSpans(body)
    }

    /// The delay given by a `Retry-After` field; `nil` if it is invalid.
    package static func retryAfter(_ value: String, now: Timestamp) -> Duration? {
        RetryAfter.read(value, now: now)
    }

    /// Whether an `Accept` field selects OpenMetrics.
    package static func prefersOpenMetrics(accept: String) -> Bool {
        ExpositionFormat(accept: accept) == .openMetrics
    }
}
