import Synchronization

/// The samples of the last minutes, used for rates and percentiles; totals since the start do not describe the present.
///
/// Samples are taken on a timer rather than per request of the page, so the first request already shows the preceding
/// minutes. One sample costs as much as one scrape.
final class StatusHistory: Sendable {
    /// The sampling interval.
    static let interval: Duration = .seconds(10)
    /// The age of the oldest sample.
    static let length: Duration = .seconds(300)
    /// The minimum period for a rate.
    private static let shortest: Duration = .seconds(1)

    private typealias Entry = (at: ContinuousClock.Instant, sample: StatusSample)
    private let entries: Mutex<[Entry]>

    /// Creates an empty history.
    init(startedAt: ContinuousClock.Instant) {
        entries = Mutex([(startedAt, StatusSample())])
    }

    /// Adds a sample; samples must be added in order of time.
    func append(_ sample: StatusSample, at now: ContinuousClock.Instant) {
        entries.withLock { entries in
            entries.append((now, sample))
            // The newest sample older than the period is kept, so the whole period is covered.
            while entries.count > 1, now - entries[1].at >= Self.length { entries.removeFirst() }
        }
    }

    /// The number of samples.
    var count: Int { entries.withLock { $0.count } }

    /// The change up to a current sample, over the period covered by samples.
    func window(to sample: StatusSample, at now: ContinuousClock.Instant) -> StatusWindow {
        let first = entries.withLock { entries in
            // If the timer did not run, for example because the process was stopped, samples may be much older.
            entries.last { now - $0.at >= Self.length } ?? entries.first
        }
        guard let first else { return StatusWindow(duration: Self.shortest, change: sample) }
        return StatusWindow(duration: max(now - first.at, Self.shortest), change: sample.subtracting(first.sample))
    }
}

/// The change within a period.
struct StatusWindow: Sendable {
    /// At least a second.
    let duration: Duration
    let change: StatusSample

    /// The rate per second.
    func rate(_ count: UInt64) -> Double { Double(count) / (duration / .seconds(1)) }
}
