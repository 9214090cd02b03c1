package import CloakroomCore
import Crypto

/// A login that was sent to a provider and has not returned: the content of the login cookie.
///
/// Nothing of it is kept in the gateway, so a client that begins logins cannot exhaust a table.
package struct PendingLogin: Sendable, Equatable, Unprintable {
    /// The maximum length of ``returnTarget`` in bytes, so that the cookie is at most ``LoginCookies/maxValueLength``
    /// characters long.
    package static let maxReturnTarget = LoginLinks.maxReturnTarget
    /// The maximum length of the names of identities and routes in bytes.
    static let maxName = 64

    /// The name of the identity.
    package var identity: String
    /// SHA-256 of the issuer at the start of the login: a reload may give the name to another provider.
    package var issuerHash: [UInt8]
    /// SHA-256 of the state.
    package var stateHash: [UInt8]
    /// The bytes of the nonce.
    package var nonce: [UInt8]
    /// The bytes of the PKCE verifier.
    package var verifier: [UInt8]
    /// Where the browser continues: a value of ``ReturnTarget``, at most ``maxReturnTarget`` bytes.
    package var returnTarget: String
    /// When the login began.
    package var startedAt: Timestamp
    /// The name of the route whose `acr` and `maxAge` were requested; `nil` for an ordinary login.
    package var route: String?
    /// The session that the new one replaces; `nil` for none. It is kept here because a `Strict` cookie is not sent
    /// with the callback.
    package var replaces: SessionKey?
    /// SHA-256 of the issuer and subject that must return, for a step-up; `nil` otherwise.
    package var subjectHash: [UInt8]?
    /// Whether the user asks to stay signed in after the browser is closed.
    package var isPersistent: Bool

    /// Creates the content for a new login.
    package init(
        _ secrets: LoginSecrets, identity: String, issuer: String, returnTarget: String, startedAt: Timestamp,
        route: String? = nil, replaces: SessionKey? = nil, subjectHash: [UInt8]? = nil, isPersistent: Bool = false
    ) {
        self.identity = identity
        issuerHash = Self.hash(ofIssuer: issuer)
        stateHash = secrets.stateHash
        nonce = secrets.nonce
        verifier = secrets.verifier
        self.returnTarget = returnTarget
        self.startedAt = startedAt
        self.route = route
        self.replaces = replaces
        self.subjectHash = subjectHash
        self.isPersistent = isPersistent
    }

    /// The nonce as it is in the ID token.
    package var nonceText: String { Base64URL.encode(nonce) }
    /// The verifier as it is sent with the code.
    package var verifierText: Secret { Secret(Base64URL.encode(verifier)) }

    /// The hash of an issuer.
    package static func hash(ofIssuer issuer: String) -> [UInt8] { Array(SHA256.hash(data: Array(issuer.utf8))) }

    /// The hash of an issuer and a subject. Each is hashed first, so no two pairs have the same input.
    package static func hash(ofIssuer issuer: String, subject: String) -> [UInt8] {
        let parts = hash(ofIssuer: issuer) + Array(SHA256.hash(data: Array(subject.utf8)))
        return Array(SHA256.hash(data: parts))
    }

    /// Whether the login is too old, or from the future, which a clock that was set back causes.
    package func isExpired(now: Timestamp, timeout: Duration) -> Bool {
        now - startedAt > timeout || startedAt - now > .seconds(60)
    }
}

extension PendingLogin {
    /// The first byte of the encoding. Another layout has another number.
    private static let format: UInt8 = 1

    /// The fields in a fixed order, each after its length in two bytes.
    var bytes: [UInt8] {
        var bytes = [Self.format]
        for field in [
            Array(identity.utf8), issuerHash, stateHash, nonce, verifier, Array(returnTarget.utf8),
            UInt64(bitPattern: startedAt.milliseconds).bigEndianBytes, Array((route ?? "").utf8),
            replaces?.bytes ?? [], subjectHash ?? [], isPersistent ? [1] : [],
        ] {
            // Longer fields are rejected by ``LoginCookies/seal(_:with:)`` before.
            let count = min(field.count, Int(UInt16.max))
            bytes += [UInt8(count >> 8), UInt8(count & 0xff)] + field.prefix(count)
        }
        return bytes
    }

    /// Whether each text is within its limit.
    var isWithinLimits: Bool {
        returnTarget.utf8.count <= Self.maxReturnTarget && identity.utf8.count <= Self.maxName
            && (route?.utf8.count ?? 0) <= Self.maxName
    }

    /// Decodes ``bytes``.
    /// - Returns: `nil` for another format and for bytes that were not encoded here.
    init?(bytes: [UInt8]) {
        guard bytes.first == Self.format else { return nil }
        var fields: [ArraySlice<UInt8>] = []
        var rest = bytes.dropFirst()
        while !rest.isEmpty {
            guard fields.count < 11, rest.count >= 2 else { return nil }
            let count = Int(rest[rest.startIndex]) << 8 | Int(rest[rest.startIndex + 1])
            rest = rest.dropFirst(2)
            guard rest.count >= count else { return nil }
            fields.append(rest.prefix(count))
            rest = rest.dropFirst(count)
        }
        guard fields.count == 11, fields[1...4].allSatisfy({ $0.count == 32 }), fields[6].count == 8,
            fields[8...9].allSatisfy({ $0.isEmpty || $0.count == 32 }), fields[10].isEmpty || fields[10] == [1],
            let identity = String(validating: fields[0], as: UTF8.self),
            let target = String(validating: fields[5], as: UTF8.self),
            let route = String(validating: fields[7], as: UTF8.self)
        else { return nil }
        self.identity = identity
        issuerHash = Array(fields[1])
        stateHash = Array(fields[2])
        nonce = Array(fields[3])
        verifier = Array(fields[4])
        returnTarget = target
        startedAt = Timestamp(milliseconds: Int64(bitPattern: fields[6].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
        self.route = route.isEmpty ? nil : route
        replaces = SessionKey(bytes: Array(fields[8]))
        subjectHash = fields[9].isEmpty ? nil : Array(fields[9])
        isPersistent = !fields[10].isEmpty
    }
}
