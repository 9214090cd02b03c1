package import CloakroomCore
import Crypto
import Synchronization

/// Checks that a client has the key that its access token is bound to (RFC 9449 §4.3). One for the process.
///
/// A proof is accepted once: its id is remembered for as long as its time, or the time of its nonce, makes it acceptable.
package final class TokenProofs: Sendable, Unprintable {
    static let algorithms: Set<SignatureAlgorithm> = [.es256, .edDSA, .rs256]
    /// The permitted difference between the time of a proof without a nonce and the clock.
    static let window = Duration.seconds(60)
    static let nonceLifetime = Duration.seconds(300)
    /// How long responses have the same nonce: each 401 has one, and costs no encryption.
    static let nonceInterval = Duration.milliseconds(100)
    private static let nonceName = "dpop nonce"

    /// The result of a check. `needsNonce` is no failure: the client repeats the request with a new proof.
    enum Result: Sendable, Equatable {
        case valid, needsNonce
        /// Too many have failed while it waited.
        case limited
        case rejected(TokenRejection)
    }

    private let sealing: any CookieSealing
    private let latestNonce = Mutex<(text: String, issuedAt: WallTime)?>(nil)
    /// Apart, because the times of the latter are the clients', and may be in the future.
    private let accepted = Mutex((withNonce: AcceptedProofs(), others: AcceptedProofs()))
    let queue = ClientQueue(1)

    /// - Parameter sealing: Seals nonces. Replicas with the same secrets accept each other's.
    package init(sealing: any CookieSealing) { self.sealing = sealing }

    /// The time, sealed.
    func nonce(now: WallTime) -> String? {
        latestNonce.withLock { latest in
            if let latest, now >= latest.issuedAt, now - latest.issuedAt < Self.nonceInterval { return latest.text }
            let time = UInt64(bitPattern: now.milliseconds).bigEndianBytes
            latest = sealing.seal(time, name: Self.nonceName).map { (text: Base64URL.encode($0), issuedAt: now) }
            return latest?.text
        }
    }

    /// Checks a proof when it is the turn of its client, so that signatures keep one thread busy at most.
    /// - Parameters:
    ///   - key: The thumbprint that the token states.
    ///   - origin: That of the public URL.
    ///   - client: The one that has sent it.
    ///   - charge: Whether another proof may fail; with `true`, one has failed.
    /// - Returns: `nil` if too many proofs wait, of all clients or of this one, or if it was not its turn in time.
    func check(
        _ proof: TokenProof, of token: [UInt8], key: [UInt8], at origin: WebOrigin,
        from client: RateKey = RateKey(peer: ""), now: WallTime,
        charge: @escaping @Sendable (Bool) -> Bool = { _ in true }
    ) async -> Result? {
        await queue.run(from: client) { () -> Result in
            guard charge(false) else { return .limited }
            let result = self.check(proof, token, key, origin, now)
            if case .rejected = result { _ = charge(true) }
            return result
        }
    }

    private func check(
        _ proof: TokenProof, _ token: [UInt8], _ thumbprint: [UInt8], _ origin: WebOrigin, _ now: WallTime
    ) -> Result {
        guard let text = proof.text, let parsed = try? UnverifiedToken(parsing: text, algorithms: Self.algorithms),
            parsed.type == .proof, let key = parsed.statedKey.flatMap({ try? JSONWebKey($0) }),
            key.fits(parsed.algorithm), key.material.isFitForClients, key.material.thumbprint == thumbprint,
            case .object(let members)? = JSONValue(document: parsed.payload),
            let method = members["htm"]?.string, method.utf8.elementsEqual(proof.method),
            let target = members["htu"]?.string, Self.isTarget(target, origin, path: proof.path),
            let hash = members["ath"]?.string,
            TokenClaims.isSame(hash, Base64URL.encode(Array(SHA256.hash(data: token)))),
            let id = members["jti"]?.string, !id.isEmpty,
            let issuedAt = try? TokenClaims(members).time("iat", or: .invalidIssuedAt)
        else { return .rejected(.invalidProof) }
        let nonce = members["nonce"].map { self.time(of: $0.string ?? "", now: now) }
        // Before the signature: a client without a nonce costs none.
        let (time, age) = nonce.map { ($0 ?? issuedAt, Self.nonceLifetime) } ?? (issuedAt, Self.window)
        guard nonce != .some(nil), now - time <= age, time - now <= age else { return .needsNonce }
        guard let signer = try? SignatureKey(key.material),
            (try? signer.isValid(parsed.signature, parsed.algorithm, of: parsed.signedBytes)) == true
        else { return .rejected(.invalidProof) }
        let digest = SHA256.hash(data: thumbprint + Array(id.utf8)).withUnsafeBytes { SessionKey(digest: $0) }
        return accepted.withLock {
            nonce == nil
                ? $0.others.insert(digest, time: time, now: now) : $0.withNonce.insert(digest, time: time, now: now)
        }
    }

    /// When a nonce was issued; `nil` for one that is not the gateway's, or from the future.
    private func time(of nonce: String, now: WallTime) -> WallTime? {
        guard nonce.utf8.count <= 64, let sealed = Base64URL.decode(nonce.utf8) else { return nil }
        return sealing.open(sealed, name: Self.nonceName).flatMap { DeviceSessions.time($0[...], now: now) }
    }

    /// Whether `htu` is the origin and the path, in any spelling that has the same normal form. Its query and fragment are
    /// ignored.
    private static func isTarget(_ text: String, _ origin: WebOrigin, path: [UInt8]) -> Bool {
        let place = text.utf8.prefix { $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") }
        let url = EndpointURL(String(Substring(place)), permitting: origin)
        guard let url, url.origin == origin else { return false }
        let stated = Array((url.target.isEmpty ? "/" : url.target).utf8)
        var normal: [UInt8] = []
        guard let target = try? RequestTarget.parse(stated.span, scratch: &normal) else { return false }
        return (target.isPathRewritten ? normal : stated) == path
    }
}

/// The proofs that were accepted, in two generations of a bounded number. If the newer one is full, the older one is
/// forgotten, and with it all proofs that are as old as one of its proofs: they need another nonce. So no proof is accepted
/// twice however many there are, and a client that floods the table only makes others repeat a request.
///
/// Times that are later than any acceptable one are those of a clock that was set back. Without the bound no proof would be
/// accepted until the clock is there again. With it, one that was forgotten then may be accepted again at that time.
struct AcceptedProofs {
    /// The maximum number of proofs of a generation.
    static let maxProofs = 16_384

    var limit = AcceptedProofs.maxProofs
    private(set) var newer: (proofs: Set<SessionKey>, latest: WallTime) = ([], WallTime(milliseconds: .min))
    private(set) var older: (proofs: Set<SessionKey>, latest: WallTime) = ([], WallTime(milliseconds: .min))
    private var forgotten = WallTime(milliseconds: .min)

    mutating func insert(_ key: SessionKey, time: WallTime, now: WallTime) -> TokenProofs.Result {
        // Twice, because proofs wait for their turn.
        let bound = now + TokenProofs.window * 2
        newer.latest = min(newer.latest, bound)
        older.latest = min(older.latest, bound)
        forgotten = min(forgotten, bound)
        guard !newer.proofs.contains(key), !older.proofs.contains(key) else { return .rejected(.repeatedProof) }
        guard time > forgotten else { return .needsNonce }
        newer.proofs.insert(key)
        newer.latest = max(newer.latest, time)
        if newer.proofs.count >= limit {
            forgotten = max(forgotten, older.latest)
            (older, newer) = (newer, ([], forgotten))
        }
        return .valid
    }
}

extension JSONWebKey.Material {
    /// Whether a client may have the key: RSA with at most 4,096 bits and a usual exponent. Its holder chooses it, and so what
    /// each check costs; the longest key of a provider costs 25 times as much as one of 2,048 bits.
    var isFitForClients: Bool {
        if case .rsa(let modulus, let exponent) = self { modulus.count <= 512 && exponent.count <= 3 } else { true }
    }

    /// The thumbprint of the key (RFC 7638 §3).
    var thumbprint: [UInt8] {
        let members: String
        switch self {
        case .rsa(let modulus, let exponent):
            members = #""e":"\#(Base64URL.encode(exponent))","kty":"RSA","n":"\#(Base64URL.encode(modulus))""#
        case .curve(let curve, let x, let y):
            let numbers = #""x":"\#(Base64URL.encode(x))","y":"\#(Base64URL.encode(y))""#
            members = #""crv":"\#(curve.rawValue)","kty":"EC",\#(numbers)"#
        case .ed25519(let key): members = #""crv":"Ed25519","kty":"OKP","x":"\#(Base64URL.encode(key))""#
        }
        return Array(SHA256.hash(data: Array("{\(members)}".utf8)))
    }
}
