/// A number of requests in a period.
public struct RequestRate: Sendable, Equatable, CustomStringConvertible {
    /// The unit of a rate.
    public enum Period: String, Sendable, CaseIterable {
        /// The notation in the configuration.
        case second = "s"
        case minute = "m"
        case hour = "h"

        var seconds: Int {
            switch self {
            case .second: 1
            case .minute: 60
            case .hour: 3_600
            }
        }
    }

    /// 1...1,000,000.
    public var count: Int
    /// The unit.
    public var period: Period

    package init(_ count: Int, per period: Period) {
        self.count = count
        self.period = period
    }

    /// `600/m`.
    public var description: String { "\(count)/\(period.rawValue)" }
}

/// A limit of requests over time. It has one bucket for each key, however many routes list it.
public struct RateLimit: Sendable, Equatable {
    /// What requests are counted by.
    public enum Subject: Sendable, Equatable, CustomStringConvertible {
        /// The client address: an IPv4 address or a /64 of IPv6.
        case address
        /// The session; without one the address.
        case session
        /// The account of the session; without one the address.
        case account
        /// The route, for all clients together.
        case route
        /// The value of a claim of the session; without one the address.
        case claim(ClaimName)

        /// The notation in the configuration.
        public var description: String {
            switch self {
            case .address: "address"
            case .session: "session"
            case .account: "account"
            case .route: "route"
            case .claim(let name): "claim:\(name)"
            }
        }
    }

    /// The name in metrics, logs and responses. Unique; letters, digits, hyphens and underscores.
    public var name: String
    /// What requests are counted by.
    public var subject: Subject = .address
    /// The rate in the long run.
    public var requests = RequestRate(1, per: .second)
    /// The number of requests that are permitted at once, 1...100,000; `nil` is ``defaultBurst``.
    public var givenBurst: Int?
    /// Whether requests beyond the limit are rejected. Otherwise they are only counted and logged.
    public var isEnforced = true
    /// Whether all gateways at one session store have one bucket for each key. Otherwise each counts by itself.
    public var isShared = false
    /// The claims of the sessions that are counted; empty for all requests.
    public var when: [RequiredClaim] = []

    /// Creates a limit by address.
    public init(name: String) { self.name = name }

    /// The number of requests that are permitted at once.
    public var burst: Int { givenBurst ?? defaultBurst }

    /// The requests of 6 s, 1...100,000.
    var defaultBurst: Int { min(max(requests.count * 6 / requests.period.seconds, 1), 100_000) }

    /// Whether it counts the requests of a session, or those without one.
    public func counts(_ session: Session?) -> Bool {
        guard !when.isEmpty else { return true }
        guard let claims = session?.claims?.values else { return false }
        return when.allSatisfy { $0.isMet(by: claims) }
    }

    /// Whether it is decided with the session. Otherwise before the session is looked up.
    public var dependsOnSession: Bool {
        switch subject {
        case .address, .route: !when.isEmpty
        case .session, .account, .claim: true
        }
    }
}

/// When the limits of requests over time are reported in responses.
public enum RateFields: String, Sendable, Hashable, CaseIterable {
    /// In the response to a rejected request.
    case rejected
    /// In the responses to all requests that a limit counts.
    case always
    /// Never.
    case none
}

/// The numbers of a limit for ``RateLimitTable``.
public struct RatePace: Sendable, Equatable {
    /// Nanoseconds that a request takes at the rate of the limit, at least 1.
    public let cost: UInt64
    /// Nanoseconds that a key may be ahead of the rate: all requests of a burst but one.
    public let tolerance: UInt64
    /// The number of requests of a burst.
    private let burst: UInt64
    /// How far to shift a time to the right before the use of different limits is compared, 0...33 bits: to units of
    /// 1/512 to 1/256 of ``cost``, or 1 ns.
    let shift: UInt64

    /// With this one and the time 0, a table counts requests.
    static let counting = RatePace(cost: 1, tolerance: .max / 2, burst: 1, shift: 0)

    /// How long a burst takes at the rate, in nanoseconds.
    var burstTime: UInt64 { burst * cost }

    /// A part of the rate and of the burst, for the same keys.
    func divided(by count: UInt64) -> RatePace {
        guard count > 1 else { return self }
        let part = max(1, burst / count)
        return RatePace(cost: cost * count, tolerance: (part - 1) * cost * count, burst: part, shift: shift)
    }

    /// The number of requests that a key may still send at once.
    public func remaining(after charge: RateLimitTable.Charge) -> UInt64 {
        charge.used < burstTime ? (burstTime - charge.used) / cost : 0
    }

    /// `"NAME";q=60;w=6`: the burst, and the seconds until it is complete again if all of it was used
    /// (draft-ietf-httpapi-ratelimit-headers-10, RateLimit-Policy).
    public func policy(named name: String) -> String {
        "\"\(name)\";q=\(burst);w=\(Self.seconds(burstTime))"
    }

    /// Seconds, rounded up.
    public static func seconds(_ nanoseconds: UInt64) -> UInt64 { (nanoseconds + 999_999_999) / 1_000_000_000 }
}

extension RatePace {
    /// - Parameter factor: How many times the limit.
    public init(_ limit: RateLimit, times factor: UInt64 = 1) {
        let period = UInt64(limit.requests.period.seconds) * 1_000_000_000
        cost = max(1, period / (UInt64(limit.requests.count) * factor))
        burst = UInt64(limit.burst) * factor
        tolerance = (burst - 1) * cost
        shift = UInt64(max(55 - cost.leadingZeroBitCount, 0))
    }
}
