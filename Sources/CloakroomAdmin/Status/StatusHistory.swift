import Synchronization

/// The samples of the last minutes, from which rates and percentiles are made: what happened since the start says little
/// about now.
///
/// Samples are taken on a timer and not at looks: an operator who opens the page for the first time at night needs the
/// minutes before, and one sample costs what one scrape costs.
final class StatusHistory: Sendable {
    /// How often a sample should be taken.
    static let interval: Duration = .seconds(10)
    /// How far back the oldest one lies.
    static let length: Duration = .seconds(300)
    /// The shortest time that a rate is made of.
    private static let shortest: Duration = .seconds(1)

    private typealias Entry = (at: ContinuousClock.Instant, sample: StatusSample)
    private let entries: Mutex<[Entry]>

    /// Begins with nothing having happened.
    init(startedAt: ContinuousClock.Instant) {
        entries = Mutex([(startedAt, StatusSample())])
    }

    /// Remembers a sample; they come in the order of their times.
    func append(_ sample: StatusSample, at now: ContinuousClock.Instant) {
        entries.withLock { entries in
            entries.append((now, sample))
            // The first one that is too old stays, so that the whole length is always covered.
            while entries.count > 1, now - entries[1].at >= Self.length { entries.removeFirst() }
        }
    }

    /// How many samples are kept.
    var count: Int { entries.withLock { $0.count } }

    /// What happened up to a sample that was taken now, as far back as samples go.
    func window(to sample: StatusSample, at now: ContinuousClock.Instant) -> StatusWindow {
        let first = entries.withLock { entries in
            // Without a timer, as when the process was stopped for a while, there may be much older ones.
            entries.last { now - $0.at >= Self.length } ?? entries.first
        }
        guard let first else { return StatusWindow(duration: Self.shortest, change: sample) }
        return StatusWindow(duration: max(now - first.at, Self.shortest), change: sample.subtracting(first.sample))
    }
}

/// What happened within some time.
struct StatusWindow: Sendable {
    /// At least a second.
    let duration: Duration
    let change: StatusSample

    /// How often per second.
    func rate(_ count: UInt64) -> Double { Double(count) / (duration / .seconds(1)) }
}
