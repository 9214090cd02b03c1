import CloakroomCore

/// The layout of a sealed part; its first byte. Another layout gets another case, a key of its own
/// (``SealingKeyring``), and a record in `SessionFormatTests`.
enum SessionFormat: UInt8, Sendable {
    case one = 1
    /// Of a session with the key of its device.
    case two = 2
    /// Of a session of an app, with its terms or its name.
    case three = 3
    /// Of a session with both.
    case four = 4

    init(_ session: Session) {
        let isOfApp = session.terms != nil || session.app != nil
        self = isOfApp ? session.device == nil ? .three : .four : session.device == nil ? .one : .two
    }

    /// Whether it is that of a session with the key of its device.
    var isBound: Bool { self == .two || self == .four }
    var isOfApp: Bool { self == .three || self == .four }
}

/// The part that only the ticket opens, as bytes: see ``SessionSealer`` for the layout.
struct SessionParts: Equatable {
    var user: UserProfile
    var tokens: TokenSet
    var source: SessionSource
    var provenance: SessionProvenance?
    var device: DeviceBinding?

    var bytes: [UInt8] {
        var writer = LengthPrefixedWriter()
        writer.append(tokens.authorization.bytes)
        writer.append(tokens.refreshToken.map { [1] + $0.bytes } ?? [])
        if let end = tokens.accessTokenExpiresAt { writer.append(end) } else { writer.append([]) }
        writer.append(tokens.issuedAt)
        writer.append(user.json)
        writer.append(user.account.canonicalBytes)
        writer.append(user.name == user.account ? [] : user.name.canonicalBytes)
        writer.append(source.value)
        writer.append(provenance.map(Self.bytes) ?? [])
        if let device {
            writer.append(device.key)
            writer.append(device.boundAt)
        }
        return writer.bytes
    }
}

extension SessionParts {
    /// - Returns: `nil` for bytes of any other layout.
    init?(_ bytes: [UInt8], _ format: SessionFormat = .one) {
        var reader = LengthPrefixedReader(bytes[...])
        guard let authorization = reader.field(), let refreshToken = Self.optional(reader.field()),
            let accessEnd = Self.time(reader.field()), let obtainedAt = reader.time(), let json = reader.field(),
            let account = reader.field(), let name = reader.field(), let source = reader.word(),
            let provenance = reader.field()
        else { return nil }
        tokens = TokenSet(
            authorization: Secret(bytes: Array(authorization)), refreshToken: refreshToken.map(Secret.init(bytes:)),
            accessTokenExpiresAt: accessEnd, obtainedAt: obtainedAt)
        user = UserProfile(json: Array(json), account: AccountName(canonicalBytes: Array(account)))
        if !name.isEmpty { user.name = AccountName(canonicalBytes: Array(name)) }
        self.source = SessionSource(value: source)
        if !provenance.isEmpty {
            guard let provenance = Self.provenance(provenance) else { return nil }
            self.provenance = provenance
        }
        if format.isBound {
            guard let key = reader.field(), key.count == DeviceBinding.keyLength, let boundAt = reader.time() else {
                return nil
            }
            device = DeviceBinding(key: Array(key), boundAt: boundAt)
        }
        guard reader.isAtEnd else { return nil }
    }

    /// An optional field: the outer `nil` means that the field is malformed.
    private static func optional(_ field: ArraySlice<UInt8>?) -> [UInt8]?? {
        guard let field else { return nil }
        guard let mark = field.first else { return .some(nil) }
        return mark == 1 ? .some(Array(field.dropFirst())) : nil
    }

    private static func time(_ field: ArraySlice<UInt8>?) -> WallTime?? {
        guard let field else { return nil }
        if field.isEmpty { return .some(nil) }
        guard field.count == 8 else { return nil }
        return WallTime(milliseconds: Int64(bitPattern: field.reduce(0) { $0 << 8 | UInt64($1) }))
    }
}

extension SessionParts {
    private static func bytes(_ provenance: SessionProvenance) -> [UInt8] {
        var writer = LengthPrefixedWriter()
        writer.append(Array(provenance.identity.utf8))
        writer.append(Array(provenance.issuer.utf8))
        writer.append(Array(provenance.subject.utf8))
        writer.append(provenance.providerSession.map { [1] + Array($0.utf8) } ?? [])
        if let time = provenance.authenticatedAt { writer.append(time) } else { writer.append([]) }
        writer.append(provenance.acr.map { [1] + Array($0.utf8) } ?? [])
        writer.append(provenance.nonceHash)
        writer.append(provenance.claims)
        writer.append(provenance.idToken.map { [1] + $0.bytes } ?? [])
        return writer.bytes
    }

    /// - Returns: `nil` for bytes of any other layout.
    private static func provenance(_ bytes: ArraySlice<UInt8>) -> SessionProvenance? {
        var reader = LengthPrefixedReader(bytes)
        guard let identity = text(reader.field()), let issuer = text(reader.field()),
            let subject = text(reader.field()), let providerSession = optionalText(reader.field()),
            let authenticatedAt = time(reader.field()), let acr = optionalText(reader.field()),
            let nonceHash = reader.field(), let claims = reader.field(), let idToken = optional(reader.field()),
            reader.isAtEnd
        else { return nil }
        return SessionProvenance(
            identity: identity, issuer: issuer, subject: subject, providerSession: providerSession,
            authenticatedAt: authenticatedAt, acr: acr, nonceHash: Array(nonceHash), claims: Array(claims),
            idToken: idToken.map(Secret.init(bytes:)))
    }

    private static func text(_ field: ArraySlice<UInt8>?) -> String? {
        field.flatMap { String(validating: $0, as: UTF8.self) }
    }

    /// An optional field: the outer `nil` means that the field is malformed.
    private static func optionalText(_ field: ArraySlice<UInt8>?) -> String?? {
        guard let bytes = optional(field) else { return nil }
        guard let bytes else { return .some(nil) }
        return String(validating: bytes, as: UTF8.self).map { .some($0) }
    }
}
