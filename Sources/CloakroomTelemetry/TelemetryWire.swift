package import CloakroomCore

/// What collectors and scrapers send, read for nothing but to see how it is read: for fuzzing.
package enum TelemetryWire {
    /// How many spans a collector's answer says it refused.
    package static func rejectedSpans(_ body: [UInt8]) -> Int {
        OTLPResponse.rejectedSpans(body)
    }

    /// The pause that a `Retry-After` asks for; `nil` if it cannot be read.
    package static func retryAfter(_ value: String, now: Timestamp) -> Duration? {
        RetryAfter.read(value, now: now)
    }

    /// Whether an `Accept` asks for OpenMetrics.
    package static func prefersOpenMetrics(accept: String) -> Bool {
        ExpositionFormat(accept: accept) == .openMetrics
    }
}
