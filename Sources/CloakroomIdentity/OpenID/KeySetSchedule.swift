import CloakroomCore
import CloakroomWire

/// When the key set of one OpenID Provider is fetched. A pure state machine: it reads no clock and makes no call.
///
/// Keys are fetched at the start, in the background, and then at the end of their lifetime, so that a rotation needs no
/// restart. A token with an unknown key is a reason to fetch early, at most once per ``signInInterval``. A client that
/// can send forged tokens, which is every client at the back-channel endpoint, has a budget of its own, so that
/// forged tokens cannot consume the fetches that sign-ins need.
///
/// If the provider is unreachable, the current keys remain in use for ``staleLifetime`` after the end of their
/// lifetime.
///
/// All times are nanoseconds of a monotonic clock.
package struct KeySetSchedule: Sendable {
    /// The lifetime of keys if the response specifies none.
    package static let usualLifetime: Duration = .seconds(3_600)
    /// The limits of a lifetime that the response specifies.
    package static let lifetimes: ClosedRange<Duration> = .seconds(300)...(.seconds(86_400))
    /// How long keys remain in use after the end of their lifetime.
    package static let staleLifetime: Duration = .seconds(86_400)
    /// The minimum time between two early fetches for sign-ins and refreshes. Short: after an emergency rotation no
    /// sign-in is possible before the next fetch.
    package static let signInInterval: Duration = .seconds(1)
    /// The minimum time between two early fetches for logout tokens.
    package static let backChannelInterval: Duration = .seconds(60)

    /// The origin of a token with an unknown key.
    package enum Source: Sendable, Hashable, CaseIterable {
        /// The provider's token endpoint: only the provider can send such a token.
        case tokenEndpoint
        /// The back-channel endpoint: any client can send such a token.
        case backChannel
        /// A request with an access token, which any client can send too.
        case client
    }

    /// What to do for a token with an unknown key.
    package enum Decision: Sendable, Equatable {
        /// Fetch the key set and check the token again. The fetch counts as in flight until ``fetched(lifetime:now:)``
        /// or ``failed(random:now:)``.
        case fetch
        /// A fetch is in flight: wait for it, check the token again, and ask again if the key is still unknown. The
        /// fetch may have begun before the key was published.
        case wait
        /// Reject the token. A later token may cause a fetch from this time on.
        case reject(until: UInt64)
    }

    /// Whether the current keys may be used.
    package enum Usability: Sendable, Equatable {
        /// Within their lifetime.
        case fresh
        /// After their lifetime; the provider could not be reached since.
        case stale
        /// There are none, or they are too old.
        case none
    }

    private static let backoff = ExponentialBackoff(initial: .seconds(1), maximum: .seconds(60), jitter: 0.5)

    private(set) package var isFetching = false
    /// The end of the lifetime of the current keys; `nil` without keys.
    private(set) package var freshUntil: UInt64?
    private var nextFetch: UInt64
    private var failures = 0
    private var earliestEarlyFetch: [Source: UInt64] = [:]

    /// Creates the schedule of a provider. The first fetch is due at once.
    /// - Parameter freshUntil: The end of the lifetime of the keys that there are already; `nil` without keys.
    package init(freshUntil: UInt64? = nil, now: UInt64) {
        self.freshUntil = freshUntil
        nextFetch = now
    }

    /// When ``timerFired(now:)`` is to be called; `nil` while a fetch is in flight.
    package var nextTimer: UInt64? {
        isFetching ? nil : nextFetch
    }

    /// The time of a fetch may have come.
    /// - Returns: Whether to fetch now.
    package mutating func timerFired(now: UInt64) -> Bool {
        guard !isFetching, now >= nextFetch else { return false }
        isFetching = true
        return true
    }

    /// A token has a key that is not among the current ones.
    ///
    /// A fetch for one source does not use the budget of the other. An unsuccessful fetch uses the budget too: an
    /// unavailable provider is not asked more often than an available one.
    package mutating func keyMissing(for source: Source, now: UInt64) -> Decision {
        if isFetching { return .wait }
        if let earliest = earliestEarlyFetch[source], now < earliest { return .reject(until: earliest) }
        let interval =
            switch source {
            case .tokenEndpoint: Self.signInInterval
            case .backChannel, .client: Self.backChannelInterval
            }
        earliestEarlyFetch[source] = now.addingClamped(interval.wholeNanoseconds)
        isFetching = true
        return .fetch
    }

    /// A fetch succeeded. Its keys replace the current ones completely: a key that left the set verifies nothing.
    /// - Parameter lifetime: The lifetime of the response, ``lifetime(cacheControl:)``.
    package mutating func fetched(lifetime: Duration, now: UInt64) {
        isFetching = false
        failures = 0
        let end = now.addingClamped(lifetime.wholeNanoseconds)
        freshUntil = end
        nextFetch = end
    }

    /// A fetch failed, or its document was rejected. The current keys remain.
    /// - Parameter random: Random bits for the delay of the next attempt: 1 s, doubling to 60 s.
    package mutating func failed(random: UInt64, now: UInt64) {
        isFetching = false
        // An early fetch that fails does not postpone or advance the regular one while the keys are fresh.
        if let freshUntil, now < freshUntil, now < nextFetch { return }
        failures += 1
        let delay = Self.backoff.delay(afterFailures: failures, random: random)
        nextFetch = now.addingClamped(delay.wholeNanoseconds)
    }

    /// Whether the current keys may be used.
    package func usability(now: UInt64) -> Usability {
        freshUntil.map { Self.usability(freshUntil: $0, now: now) } ?? .none
    }

    /// Whether keys whose lifetime ends at a time may be used.
    static func usability(freshUntil: UInt64, now: UInt64) -> Usability {
        if now < freshUntil { return .fresh }
        return now < freshUntil.addingClamped(staleLifetime.wholeNanoseconds) ? .stale : .none
    }

    // MARK: - Lifetime

    /// The lifetime of a response from its `Cache-Control` (RFC 9111 §5.2.2), within ``lifetimes``.
    ///
    /// The smallest of several `max-age` counts. `no-store` and `no-cache` count as 0. A value that is not a number
    /// counts as absent.
    /// - Parameter cacheControl: The value of the field, several fields joined by commas; `nil` for none.
    package static func lifetime(cacheControl: [UInt8]?) -> Duration {
        var shortest: Duration?
        for directive in (cacheControl ?? []).split(separator: UInt8(ascii: ",")) {
            guard let age = age(directive) else { continue }
            shortest = min(shortest ?? age, age)
        }
        guard let shortest else { return usualLifetime }
        return min(max(shortest, lifetimes.lowerBound), lifetimes.upperBound)
    }

    private static func age(_ directive: ArraySlice<UInt8>) -> Duration? {
        // By its bytes: characters are compared by their normalization forms, which takes more than linear time.
        let text = directive.filter { !Byte.isBlank($0) }.map(Byte.lowerCase)
        if text.elementsEqual("no-store".utf8) || text.elementsEqual("no-cache".utf8) { return .zero }
        guard text.starts(with: "max-age=".utf8) else { return nil }
        var digits = text.dropFirst(8)
        let quote = UInt8(ascii: "\"")
        if digits.count >= 2, digits.first == quote, digits.last == quote { digits = digits.dropFirst().dropLast() }
        // A greater number counts as this one, which exceeds ``lifetimes``.
        return Byte.number(digits.span, atMost: 1_000_000_000).map { .seconds($0) }
    }
}
