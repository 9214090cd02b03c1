package import CloakroomWire
import NIOCore
import Synchronization

/// The key of the device that a session is bound to, or the key of an access token. It never changes.
public final class DeviceBinding: Sendable, Equatable {
    /// The length of a key in bytes.
    public static let keyLength = 64
    /// The length of a thumbprint in bytes.
    package static let thumbprintLength = 32

    /// The public key on P-256: both coordinates. The thumbprint of that of an access token (RFC 7638).
    public let key: [UInt8]
    /// When the session got the key.
    public let boundAt: WallTime

    package init(key: [UInt8], boundAt: WallTime) {
        self.key = key
        self.boundAt = boundAt
    }

    /// Whether this is the key of an access token, which is worthless to an upstream.
    package var isOfToken: Bool { key.count == Self.thumbprintLength }

    /// Whether key and time are the same.
    public static func == (left: DeviceBinding, right: DeviceBinding) -> Bool {
        left.key == right.key && left.boundAt == right.boundAt
    }
}

extension Session {
    /// Whether it needs the proof of a device. The key of an access token is proven by each request.
    package var isBoundToDevice: Bool { device?.isOfToken == false }
}

/// Whether a request may use its session: the label `outcome` of `cloakroom_device_checks_total`.
public enum DeviceCheck: String, Sendable, CaseIterable {
    /// The request has a valid proof.
    case proven
    /// The session got its key a moment ago, and the client may not have the proof yet.
    case settling
    /// There is no valid proof, or the session has no key although it needs one.
    case unproven
}

/// What a request has of the protocol of device-bound sessions. Nothing is verified.
public struct DeviceFields: Sendable, Equatable, Unprintable {
    /// The maximum length of a signed proof in bytes.
    package static let maxProof = 4_096

    /// The value of the bound cookie; empty unless there is exactly one.
    public var cookie: [UInt8] = []
    /// `Secure-Session-Response`, a signed proof, which some clients quote; `nil` for none.
    public var proof: [UInt8]?
    /// `Sec-Secure-Session-Id`, the session as the client knows it; `nil` for none.
    public var sessionID: [UInt8]?

    package init() {}

    /// Reads the fields of a request, and the value of the bound cookie. Of more fields the last one counts: each is verified.
    package init(_ head: borrowing RequestHead, cookie: SingletonField) {
        let bytes = head.bytes.readableBytesUInt8Span
        if case .value(let range) = cookie { self.cookie = head.copy(of: range) }
        for field in head.fields {
            if ASCII.equals(bytes, field.nameRange, "secure-session-response") {
                proof = Self.unquoted(head.copy(of: field.valueRange))
            } else if ASCII.equals(bytes, field.nameRange, "sec-secure-session-id") {
                sessionID = Self.unquoted(head.copy(of: field.valueRange))
            }
        }
    }

    /// A string of a structured field (RFC 9651 §3.3.3), which has no escapes here, or the text itself.
    private static func unquoted(_ text: [UInt8]) -> [UInt8] {
        let quote = UInt8(ascii: "\"")
        return text.count >= 2 && text.first == quote && text.last == quote ? Array(text.dropFirst().dropLast()) : text
    }
}

/// The proof that was accepted last on a connection. Its clients repeat it for minutes.
package struct AcceptedProof: Sendable {
    fileprivate var binding: DeviceBinding?
    fileprivate var value: [UInt8] = []
    fileprivate var end = WallTime(milliseconds: .min)

    package init() {}
}

/// Issues and checks challenges and proofs of sessions that are bound to a key of their device (Device Bound Session
/// Credentials). One for the process.
///
/// A client with the key signs a challenge, and gets a proof for some minutes: the bound cookie. Both are sealed times, for
/// one session each, so that nothing is stored, and every replica with the same secrets accepts them.
package final class DeviceSessions: Sendable {
    /// The permitted difference between the clocks of replicas.
    package static let clockSkew = Duration.seconds(30)
    /// The maximum length of a challenge or proof, of 54 characters, and of the challenge of a registration, of 111.
    private static let (maxLength, maxOffer) = (64, 128)
    /// The names of what is sealed. No cookie has one: they have no spaces.
    private static let (offerName, readableOfferName) = ("device offer", "device offer to a script")
    private static let (challengeName, proofName) = ("device challenge", "device proof")
    /// The number of proofs of a session and an address that may fail in a minute. Beyond it none is verified.
    private static let maxFailures = 5
    private static let maxCounted = 10_000
    private static let failurePace = {
        var limit = RateLimit(name: "device")
        (limit.requests, limit.givenBurst) = (RequestRate(maxFailures, per: .minute), maxFailures)
        return RatePace(limit)
    }()

    package let configuration: DeviceConfiguration
    private let sealing: any CookieSealing
    package let observer: any AccountObserver
    private let failures = RateLimitTable(keys: maxCounted)
    /// The time of the latest proof, in nanoseconds. The table needs times that never go back: it would reject the proofs of all
    /// sessions that were checked before for as long as a clock was set back.
    private let latest = Atomic<UInt64>(0)

    /// - Returns: `nil` if no session is bound.
    package init?(_ configuration: DeviceConfiguration, sealing: any CookieSealing, observer: any AccountObserver) {
        guard configuration.isUsed else { return nil }
        self.configuration = configuration
        self.sealing = sealing
        self.observer = observer
    }

    /// Whether a session needs a check.
    @inline(__always)
    package func concerns(_ session: Session) -> Bool {
        session.device != nil || configuration.mode(of: session) == .required
    }

    /// Checks the proof of a request: the value of the bound cookie, or nothing.
    /// - Returns: `nil` if the session needs none.
    package func check(
        _ session: Session, _ proof: Span<UInt8>, accepted: inout AcceptedProof, now: WallTime
    ) -> DeviceCheck? {
        guard let binding = session.device else { return isOverdue(session, now: now) ? .unproven : nil }
        if accepted.binding === binding, now <= accepted.end, accepted.value.span.isSameSecret(as: proof) {
            return .proven
        }
        return open(proof, of: session, binding, &accepted, now: now)
    }

    @inline(never)
    private func open(
        _ proof: Span<UInt8>, of session: Session, _ binding: DeviceBinding, _ accepted: inout AcceptedProof,
        now: WallTime
    ) -> DeviceCheck {
        let value = (0..<min(proof.count, Self.maxLength + 1)).map { proof[$0] }
        let content = content(of: value, Self.name(Self.proofName, session.key, binding.key))
        if let expiry = content.flatMap({ Self.time($0[...]) }), now <= expiry + Self.clockSkew {
            (accepted.binding, accepted.value, accepted.end) = (binding, value, expiry + Self.clockSkew)
            return .proven
        }
        let age = now - binding.boundAt
        let isSettling = age >= .zero - Self.clockSkew && age <= configuration.settle + Self.clockSkew
        return isSettling ? .settling : .unproven
    }

    /// Whether a session without a key can be used no longer, or would be for longer because a clock was set back.
    package func isOverdue(_ session: Session, now: WallTime) -> Bool {
        guard configuration.mode(of: session) == .required, session.device == nil else { return false }
        let age = now - session.createdAt.wallTime
        return age > configuration.offer || age < .zero - Self.clockSkew
    }

    /// The value of the bound cookie until a time; `nil` if the cipher fails, as below.
    package func proof(for session: SessionKey, _ binding: DeviceBinding, until end: WallTime) -> String? {
        seal(end, Self.name(Self.proofName, session, binding.key))
    }

    /// A challenge to be signed with the key of a session.
    package func challenge(for session: SessionKey, now: WallTime) -> String? {
        seal(now, Self.name(Self.challengeName, session))
    }

    /// When a challenge was issued; `nil` unless it is one for this session, and not from the future.
    package func time(of challenge: String, for session: SessionKey, now: WallTime) -> WallTime? {
        let time = content(of: challenge.utf8.prefix(Self.maxLength + 1), Self.name(Self.challengeName, session))
        return time.flatMap { Self.time($0[...], now: now) }
    }

    /// `Secure-Session-Challenge` with a new challenge for a session that has a key.
    package func challengeField(for session: SessionKey, now: WallTime) -> AccountResponse.Field? {
        challenge(for: session, now: now).map {
            AccountResponse.Field("Secure-Session-Challenge", "\"\($0)\";id=\"\(session.id)\"")
        }
    }

    /// A challenge with which a client may register a key for a new session. Only the response to the sign-in has it: a client
    /// with nothing but the ticket never gets one.
    ///
    /// It contains the ticket, because browsers send no `Strict` or `Lax` cookie with the registration after a login that
    /// another site's page continued. One that a script can read, and send elsewhere, is not enough without the cookie.
    package func offer(for ticket: SessionTicket, isReadable: Bool = false, now: WallTime) -> String? {
        seal(now, isReadable ? Self.readableOfferName : Self.offerName, and: Array(ticket.cookieValue.utf8))
    }

    /// What a challenge of a registration contains; `nil` for another one, and one from the future. At another site its ticket
    /// has no session.
    package func opened(
        offer: String, at site: SiteTag, now: WallTime
    ) -> (ticket: SessionTicket, issuedAt: WallTime, isReadable: Bool)? {
        let text = offer.utf8.prefix(Self.maxOffer + 1)
        let hidden = content(of: text, Self.offerName)
        guard let content = hidden ?? content(of: text, Self.readableOfferName),
            let time = Self.time(content.prefix(8), now: now),
            var ticket = SessionTicket(cookieValue: Array(content.dropFirst(8)).span)
        else { return nil }
        ticket.site = site
        return (ticket, time, hidden == nil)
    }

    /// Counts a proof as failed, until ``proofSucceeded(of:from:)``.
    /// - Returns: Whether it may be verified; `false` after too many that failed.
    package func countProof(of session: SessionID, from address: String, now: SessionTime) -> Bool {
        let time = latest.max(UInt64(clamping: now.milliseconds) &* 1_000_000, ordering: .relaxed).newValue
        return failures.charge(Self.key(session, address), Self.failurePace, now: time).wait == 0
    }

    /// A proof was no failure.
    package func proofSucceeded(of session: SessionID, from address: String) {
        failures.refund(Self.key(session, address), Self.failurePace)
    }

    private static func key(_ session: SessionID, _ address: String) -> UInt64 {
        RateKey.processHash.hash(session.value, RateKey(peer: address).value)
    }

    private func seal(_ time: WallTime, _ name: String, and more: [UInt8] = []) -> String? {
        sealing.seal(UInt64(bitPattern: time.milliseconds).bigEndianBytes + more, name: name).map {
            Base64URL.encode($0)
        }
    }

    private func content(of text: some Collection<UInt8>, _ name: String) -> [UInt8]? {
        guard text.count <= Self.maxOffer, let sealed = Base64URL.decode(text) else { return nil }
        return sealing.open(sealed, name: name)
    }

    /// - Returns: `nil` unless there are eight bytes, and for a time after `now` and another clock's difference.
    package static func time(_ bytes: ArraySlice<UInt8>, now: WallTime? = nil) -> WallTime? {
        guard bytes.count == 8 else { return nil }
        let time = WallTime(milliseconds: Int64(bitPattern: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
        if let now, time - now > clockSkew { return nil }
        return time
    }

    private static func name(_ purpose: String, _ session: SessionKey, _ key: [UInt8] = []) -> String {
        "\(purpose) \(Base64URL.encode(session.bytes)) \(Base64URL.encode(key))"
    }
}
