import CloakroomCore

/// The layout of a sealed record; its first byte.
enum SessionFormat: UInt8, Sendable {
    /// Written by releases that recorded neither a source nor a typed name. Read, never written.
    case one = 1
    case two = 2

    /// The format that is written.
    static let written = SessionFormat.two
}

/// The part that only the ticket opens, as bytes: see ``SessionSealer`` for the layout.
struct SessionParts {
    var user: UserProfile
    var tokens: TokenSet
    /// `nil` in format 1.
    var source: SessionSource?
    /// Whether the record has a field of a later release that this one does not understand.
    var isOfLaterRelease = false

    init(user: UserProfile, tokens: TokenSet, source: SessionSource?) {
        self.user = user
        self.tokens = tokens
        self.source = source
    }

    /// The bytes in the format that is written.
    var bytes: [UInt8] {
        var writer = LengthPrefixedWriter()
        writer.append(tokens.authorization.bytes)
        writer.append(tokens.refreshToken.map { [1] + $0.bytes } ?? [])
        if let end = tokens.accessTokenExpiresAt { writer.append(end) } else { writer.append([]) }
        writer.append(tokens.issuedAt)
        writer.append(user.json)
        writer.append(user.account.canonicalBytes)
        writer.append(user.name == user.account ? [] : user.name.canonicalBytes)
        writer.append((source ?? .unknown).value)
        writer.append([])
        return writer.bytes
    }

    /// - Returns: `nil` for bytes of any other layout.
    init?(_ bytes: [UInt8], _ format: SessionFormat) {
        var reader = LengthPrefixedReader(bytes[...])
        guard let authorization = reader.field(), let refreshToken = Self.optional(reader.field()),
            let accessEnd = Self.time(reader.field()), let obtainedAt = reader.time(), let json = reader.field(),
            let account = reader.field()
        else { return nil }
        tokens = TokenSet(
            authorization: Secret(bytes: Array(authorization)), refreshToken: refreshToken.map(Secret.init(bytes:)),
            accessTokenExpiresAt: accessEnd, obtainedAt: obtainedAt)
        user = UserProfile(json: Array(json), account: AccountName(canonicalBytes: Array(account)))
        if format != .one {
            guard let name = reader.field(), let source = reader.word(), let later = reader.field() else { return nil }
            if !name.isEmpty { user.name = AccountName(canonicalBytes: Array(name)) }
            self.source = SessionSource(value: source)
            isOfLaterRelease = !later.isEmpty
        }
        guard reader.isAtEnd else { return nil }
    }

    /// An optional field: the outer `nil` means that the field is malformed.
    private static func optional(_ field: ArraySlice<UInt8>?) -> [UInt8]?? {
        guard let field else { return nil }
        guard let mark = field.first else { return .some(nil) }
        return mark == 1 ? .some(Array(field.dropFirst())) : nil
    }

    private static func time(_ field: ArraySlice<UInt8>?) -> Timestamp?? {
        guard let field else { return nil }
        if field.isEmpty { return .some(nil) }
        guard field.count == 8 else { return nil }
        return Timestamp(milliseconds: Int64(bitPattern: field.reduce(0) { $0 << 8 | UInt64($1) }))
    }
}
