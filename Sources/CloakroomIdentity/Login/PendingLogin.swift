package import CloakroomCore
import CloakroomWire
import Crypto

/// A login that was sent to a provider and has not returned: the content of the login cookie, and of the values of an
/// app's login, see ``AppLoginValue``.
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
    /// SHA-256 of the state. This and the next two are empty until a browser begins the login.
    package var stateHash: [UInt8] = []
    /// The bytes of the nonce.
    package var nonce: [UInt8] = []
    /// The bytes of the PKCE verifier.
    package var verifier: [UInt8] = []
    /// Where the browser continues: a value of ``ReturnTarget``, at most ``maxReturnTarget`` bytes. An app's login has no
    /// such target, but the content of its ``AppLoginValue``.
    package var returnTarget: String
    /// When the login began.
    package var startedAt: WallTime
    /// The name of the route whose `acr` and `maxAge` were requested; `nil` for an ordinary login.
    package var route: String?
    /// The session that the new one replaces; `nil` for none. It is kept here because a `Strict` cookie is not sent
    /// with the callback.
    package var replaces: SessionKey?
    /// SHA-256 of the issuer and subject that must return, for a step-up; `nil` otherwise.
    package var subjectHash: [UInt8]?
    /// Whether the user asks to stay signed in after the browser is closed.
    package var isPersistent = false
    /// Whether the provider may not show a page (`prompt=none`). Without a session there, the browser continues without
    /// one here.
    package var isSilent = false
    /// The app that gets the session; `nil` if the browser does.
    package var app: App?

    package struct App: Sendable, Equatable {
        package var name: String
        /// SHA-256 of the verifier, which only its HTTP client has.
        package var verifierHash: [UInt8]
        /// The port of its loopback redirect; 0 for another redirect.
        package var port: UInt16
    }

    /// The nonce as it is in the ID token.
    package var nonceText: String { Base64URL.encode(nonce) }
    /// The verifier as it is sent with the code.
    package var verifierText: Secret { Secret(Base64URL.encode(verifier)) }

    package static func hash(ofIssuer issuer: String) -> [UInt8] { Array(SHA256.hash(data: Array(issuer.utf8))) }

    /// The hash of an issuer and a subject. Each is hashed first, so no two pairs have the same input.
    package static func hash(ofIssuer issuer: String, subject: String) -> [UInt8] {
        let parts = hash(ofIssuer: issuer) + Array(SHA256.hash(data: Array(subject.utf8)))
        return Array(SHA256.hash(data: parts))
    }

    /// Whether the login is too old, or from the future, which a clock that was set back causes.
    package func isExpired(now: WallTime, timeout: Duration) -> Bool {
        now - startedAt > timeout || startedAt - now > .seconds(60)
    }
}

extension PendingLogin {
    /// The first byte of the encoding. Another layout has another number.
    private static let format: UInt8 = 1
    /// The first byte of the encoding of an app's login, which has two more fields.
    private static let appFormat: UInt8 = 2

    /// The fields in a fixed order, each after its length in two bytes.
    var bytes: [UInt8] {
        var bytes = [app == nil ? Self.format : Self.appFormat]
        let flags: UInt8 = (isPersistent ? 1 : 0) | (isSilent ? 2 : 0)
        let fields = [
            Array(identity.utf8), issuerHash, stateHash, nonce, verifier, Array(returnTarget.utf8),
            UInt64(bitPattern: startedAt.milliseconds).bigEndianBytes, Array((route ?? "").utf8),
            replaces?.bytes ?? [], subjectHash ?? [], flags == 0 ? [] : [flags],
        ]
        for field in fields
            + (app.map { [Array($0.name.utf8), $0.verifierHash + [UInt8($0.port >> 8), UInt8($0.port & 0xff)]] } ?? [])
        {
            // Logins with longer fields are rejected before: see ``isWithinLimits``.
            let count = min(field.count, Int(UInt16.max))
            bytes += [UInt8(count >> 8), UInt8(count & 0xff)] + field.prefix(count)
        }
        return bytes
    }

    /// Whether each text is within its limit.
    var isWithinLimits: Bool {
        returnTarget.utf8.count <= Self.maxReturnTarget
            && [identity, route ?? "", app?.name ?? ""].allSatisfy { $0.utf8.count <= Self.maxName }
    }

    /// Decodes ``bytes``.
    /// - Returns: `nil` for another format and for bytes that were not encoded here.
    init?(bytes: [UInt8]) {
        guard let format = bytes.first, format == Self.format || format == Self.appFormat else { return nil }
        let isOfApp = format == Self.appFormat
        let count = isOfApp ? 13 : 11
        var fields: [ArraySlice<UInt8>] = []
        var rest = bytes.dropFirst()
        while !rest.isEmpty {
            guard fields.count < count, rest.count >= 2 else { return nil }
            let count = Int(rest[rest.startIndex]) << 8 | Int(rest[rest.startIndex + 1])
            rest = rest.dropFirst(2)
            guard rest.count >= count else { return nil }
            fields.append(rest.prefix(count))
            rest = rest.dropFirst(count)
        }
        guard fields.count == count, fields[1].count == 32,
            fields[2...4].allSatisfy({ $0.count == 32 }) || isOfApp && fields[2...4].allSatisfy(\.isEmpty),
            fields[6].count == 8,
            fields[8...9].allSatisfy({ $0.isEmpty || $0.count == 32 }), fields[10].count <= 1,
            fields[10].allSatisfy({ (1...3).contains($0) }),
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
        startedAt = WallTime(milliseconds: Int64(bitPattern: fields[6].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }))
        self.route = route.isEmpty ? nil : route
        replaces = SessionKey(bytes: Array(fields[8]))
        subjectHash = fields[9].isEmpty ? nil : Array(fields[9])
        let flags = fields[10].first ?? 0
        isPersistent = flags & 1 != 0
        isSilent = flags & 2 != 0
        guard isOfApp else { return }
        guard let name = String(validating: fields[11], as: UTF8.self), fields[12].count == 34 else { return nil }
        let port = fields[12].suffix(2).reduce(UInt16(0)) { $0 << 8 | UInt16($1) }
        app = App(name: name, verifierHash: Array(fields[12].prefix(32)), port: port)
    }
}

extension SessionProvenance {
    var subjectHash: [UInt8] { PendingLogin.hash(ofIssuer: issuer, subject: subject) }
}

/// The token request that spends the code of a login (RFC 6749 §4.1.3, RFC 7636 §4.5).
///
/// A code is sent once. If the connection breaks, it is not sent again: a provider revokes the tokens of a code that it
/// sees twice (RFC 6749 §4.1.2).
package enum CodeExchange {
    /// The form, without the client's authentication.
    package static func form(
        code: Secret, login: PendingLogin, redirectURI: String
    ) -> [(name: String, value: String)] {
        [
            ("grant_type", "authorization_code"), ("code", String(decoding: code.bytes, as: UTF8.self)),
            ("redirect_uri", redirectURI),
            ("code_verifier", String(decoding: login.verifierText.bytes, as: UTF8.self)),
        ]
    }
}

/// Where a browser continues after a login: a path and query of this gateway that a route serves for `GET`.
///
/// The value is parsed like the target of a request, and its normal form is sent, so that a browser cannot read another
/// host from it than the gateway. A check of the prefix would pass `//host`, `/\host` or `/%09/host`.
package enum ReturnTarget {
    /// The normal form of a requested target.
    /// - Parameters:
    ///   - text: The decoded value of `returnTo`; `nil` if absent.
    ///   - group: The routes of the host at which the browser continues.
    /// - Returns: `nil` for a target that is not a path, is too long, is ambiguous, or that no route serves.
    package static func normalized(_ text: String?, routes: RouteTable, group: Int = 0) -> String? {
        guard let text, text.utf8.first == UInt8(ascii: "/"), text.utf8.count <= PendingLogin.maxReturnTarget else {
            return nil
        }
        let bytes = Array(text.utf8)
        var scratch: [UInt8] = []
        guard let target = try? RequestTarget.parse(bytes.span, scratch: &scratch), target.authority == nil,
            !target.isAsterisk
        else { return nil }
        let path = target.isPathRewritten ? scratch : Array(bytes[target.path.start..<target.path.end])
        guard case .route = routes.match(method: Array("GET".utf8).span, path: path.span, group: group) else {
            return nil
        }
        let normal = path + bytes[target.query.start..<target.query.end]
        // The path is at most as long as before: an escape is either decoded or kept.
        return String(decoding: normal, as: UTF8.self)
    }

    /// The first of the requested and the configured target that a route serves; otherwise `/`.
    package static func resolve(
        _ text: String?, routes: RouteTable, group: Int = 0, configured: String
    ) -> String {
        normalized(text, routes: routes, group: group) ?? normalized(configured, routes: routes, group: group) ?? "/"
    }
}
