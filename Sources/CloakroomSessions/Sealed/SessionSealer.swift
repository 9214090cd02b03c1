import CloakroomCore
import Crypto

/// Seals sessions for a store outside the process, and opens them again, only with AES-256-GCM (NIST SP 800-38D).
///
/// A sealed part is the format, one byte: ``SessionFormat``, the same for both parts; and ``SealedContent``.
///
/// A record's contents are fields, each after its length (four bytes in network order), in this order: the value of
/// `Authorization`; the refresh token, with a byte 1 before it, or empty for none; the expiry of the access token,
/// eight bytes, or empty for unknown; the issue time of the tokens, eight bytes; the user's JSON; the account's
/// canonical name; the canonical name that was typed at sign-in, or empty if it is the account's; the session's source,
/// eight bytes; and the provenance, which is empty for none. The provenance is itself fields: the name of the identity; issuer; subject; the
/// provider's session; the time of authentication, eight bytes, or empty for unknown; `acr`; the hash of the nonce; the
/// claims, JSON; the ID token. The provider's session, `acr` and the ID token have a byte 1 before them, or are empty
/// for none. In the formats 2 and 4 follow the public key, 64 bytes, and the time when the session got it, eight bytes. A record's client part
/// holds: the family of the user agent, one byte; the peer's address; in the formats 3 and 4 the terms: idle and absolute
/// timeout, eight bytes each, and the mode of device binding, which is empty if the configuration applies; and, except in
/// older records, the name of the app. Times are milliseconds since the epoch in network order. Another layout is another
/// format: a release reads the formats of the one before it.
///
/// A release does not open a record of a later format, and leaves it in the store: other gateways can open it.
struct SessionSealer: Sendable {
    let secrets: SealingKeyring

    /// The result of opening a record.
    enum OpenResult {
        /// `isCurrent`: whether the record is sealed under the newest secret.
        case opened(Session, isCurrent: Bool)
        /// The secret is unknown here, or the format is of a later release: other gateways can open the record.
        case foreign
        /// The record was damaged or tampered with, or belongs to another ticket.
        case unreadable
    }

    /// Seals a session under the newest secret. A session that was opened here keeps its ``SessionRecord/birth``.
    /// - Throws: ``SessionStoreError`` of kind `unavailable` if the cipher fails, which is not expected.
    func seal(_ session: Session, ticket: SessionTicket) throws(SessionStoreError) -> SessionRecord {
        // Each time a copy of the data.
        let user = session.user
        let account = secrets.accountHashes.hash(user.account)
        var record = SessionRecord(
            key: session.key, account: account,
            name: user.name == user.account ? account : secrets.accountHashes.hash(user.name),
            provider: session.provenance?.session.map(secrets.accountHashes.hash), createdAt: session.createdAt,
            expiresAt: session.expiresAt, lastUsedAt: session.lastUsedAt, version: session.version, contents: [],
            client: [], birth: RecordBirth(bytes: session.storeData))
        let parts = SessionParts(
            user: user, tokens: session.tokens, source: session.source, provenance: session.provenance,
            device: session.device)
        let format = SessionFormat(session)
        record.contents = try seal(
            parts.bytes, secrets.newestRecordKey(ticket: ticket, format), Self.contentsBinding(record, format), format)
        record.client = try seal(
            Self.bytes(of: session.client, session.terms), secrets.newestClientKey(session.key, format),
            Self.clientBinding(record, format), format)
        return record
    }

    func open(_ record: SessionRecord, ticket: SessionTicket) -> OpenResult {
        if let format = record.contents.first, SessionFormat(rawValue: format) == nil { return .foreign }
        guard let (format, part) = Self.part(record.contents) else { return .unreadable }
        guard secrets.contains(part.secret) else { return .foreign }
        let keys = secrets.recordKeys(part.secret, ticket: ticket, format: format)
        guard let bytes = part.open(keys, binding: Self.contentsBinding(record, format)),
            let parts = SessionParts(bytes, format), let (client, terms) = openClient(of: record)
        else { return .unreadable }
        let session = Session(
            key: record.key, user: parts.user, tokens: parts.tokens, client: client,
            source: parts.source, provenance: parts.provenance, device: parts.device, terms: terms,
            createdAt: record.createdAt, expiresAt: record.expiresAt, lastUsedAt: record.lastUsedAt,
            version: record.version, storeData: record.birth.bytes)
        return .opened(session, isCurrent: part.secret == secrets.newestID)
    }

    /// Whether a record is of a session with the key of its device, also without its contents.
    static func isBound(_ record: SessionRecord) -> Bool {
        record.client.first.flatMap(SessionFormat.init(rawValue:))?.isBound ?? false
    }

    /// The terms of a record's session, also without its contents; `nil` if the configured timeouts apply.
    ///
    /// Those that cannot be opened are unlimited: the secret may be one of another gateway, for which the record remains.
    func terms(of record: SessionRecord) -> SessionTerms? {
        guard let format = record.client.first, format > SessionFormat.two.rawValue else { return nil }
        guard let (_, terms) = openClient(of: record) else {
            return SessionTerms(idle: .milliseconds(Int64.max), absolute: .milliseconds(Int64.max), device: .off)
        }
        return terms
    }

    /// Opens the client part of a session, which requires no ticket.
    func openClient(of record: SessionRecord) -> (client: SessionClientInfo, terms: SessionTerms?)? {
        guard let (format, part) = Self.part(record.client),
            let bytes = part.open(
                secrets.clientInfoKeys(part.secret, of: record.key, format: format),
                binding: Self.clientBinding(record, format))
        else { return nil }
        return Self.client(of: bytes, format)
    }
}

extension SessionSealer {
    /// The fields of a sealed part, not opened.
    private static func part(_ bytes: [UInt8]) -> (format: SessionFormat, content: SealedContent)? {
        guard let format = bytes.first.flatMap(SessionFormat.init(rawValue:)),
            let content = SealedContent(bytes.dropFirst())
        else { return nil }
        return (format, content)
    }

    private func seal(
        _ bytes: [UInt8], _ key: SymmetricKey, _ binding: [UInt8], _ format: SessionFormat
    ) throws(SessionStoreError) -> [UInt8] {
        do {
            let content = try SealedContent.seal(bytes, key, of: secrets.newestID, binding: binding)
            return [format.rawValue] + content
        } catch {
            throw SessionStoreError(.unavailable)
        }
    }

    /// The data that authenticates the contents: all cleartext fields that only the gateway may change. The time of the
    /// last use is not included: it is written without the ticket.
    private static func contentsBinding(_ record: SessionRecord, _ format: SessionFormat) -> [UInt8] {
        var writer = LengthPrefixedWriter()
        writer.append([format.rawValue])
        writer.append(record.key)
        writer.append(record.account)
        writer.append(record.name ?? 0)
        writer.append(record.createdAt)
        writer.append(record.expiresAt)
        writer.append(record.version)
        writer.append(record.provider?.bigEndianBytes ?? [])
        return writer.bytes
    }

    private static func clientBinding(_ record: SessionRecord, _ format: SessionFormat) -> [UInt8] {
        var writer = LengthPrefixedWriter()
        writer.append([format.rawValue])
        writer.append(record.key)
        writer.append(record.account)
        return writer.bytes
    }
}

extension SessionSealer {
    private static func bytes(of client: SessionClientInfo, _ terms: SessionTerms?) -> [UInt8] {
        var writer = LengthPrefixedWriter()
        writer.append([client.userAgent.rawValue])
        writer.append(Array(client.peer.utf8.prefix(255)))
        if terms != nil || client.app != nil {
            for time in [terms?.idle ?? .zero, terms?.absolute ?? .zero] {
                writer.append(UInt64(bitPattern: time.wholeMilliseconds))
            }
            writer.append(Array((terms?.device.rawValue ?? "").utf8))
        }
        if let app = client.app { writer.append(Array(app.utf8)) }
        return writer.bytes
    }

    private static func client(
        of bytes: [UInt8], _ format: SessionFormat
    ) -> (SessionClientInfo, SessionTerms?)? {
        var reader = LengthPrefixedReader(bytes[...])
        guard let family = reader.field(), family.count == 1, let peer = reader.field() else { return nil }
        var client = SessionClientInfo(
            peer: String(decoding: peer, as: UTF8.self),
            userAgent: family.first.flatMap(UserAgentFamily.init(rawValue:)) ?? .other)
        var terms: SessionTerms?
        if format.isOfApp {
            guard let idle = reader.time(), let absolute = reader.time(), let name = reader.field() else { return nil }
            let mode = DeviceConfiguration.Mode(rawValue: String(decoding: name, as: UTF8.self))
            guard mode != nil || name.isEmpty else { return nil }
            let times = [idle, absolute].map { Duration.milliseconds($0.milliseconds) }
            terms = mode.map { SessionTerms(idle: times[0], absolute: times[1], device: $0) }
            client.app = reader.field().map { String(decoding: $0, as: UTF8.self) }
        }
        return reader.isAtEnd ? (client, terms) : nil
    }
}

/// Encodes fields so that no two lists of fields give the same bytes: each field follows its length, four bytes in
/// network order.
struct LengthPrefixedWriter {
    private(set) var bytes: [UInt8] = []

    mutating func append(_ field: some Collection<UInt8>) {
        bytes += UInt64(field.count).bigEndianBytes.suffix(4)
        bytes += field
    }

    /// Appends a field of eight bytes in network order.
    mutating func append(_ word: UInt64) {
        append(word.bigEndianBytes)
    }

    mutating func append(_ time: Timestamp<some Any>) {
        append(UInt64(bitPattern: time.milliseconds))
    }

    /// Appends four fields, one for each word.
    mutating func append(_ key: SessionKey) {
        for word in [key.word0, key.word1, key.word2, key.word3] { append(word) }
    }
}

/// Decodes the fields of ``LengthPrefixedWriter``. Malformed bytes give `nil`, never a trap.
struct LengthPrefixedReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        rest = bytes
    }

    /// Whether everything was read.
    var isAtEnd: Bool { rest.isEmpty }

    mutating func field() -> ArraySlice<UInt8>? {
        guard rest.count >= 4 else { return nil }
        let length = Int(rest.prefix(4).reduce(0) { $0 << 8 | UInt32($1) })
        guard rest.count - 4 >= length else { return nil }
        let start = rest.startIndex + 4
        defer { rest = rest[(start + length)...] }
        return rest[start..<(start + length)]
    }

    mutating func word() -> UInt64? {
        guard let field = field(), field.count == 8 else { return nil }
        return field.reduce(0) { $0 << 8 | UInt64($1) }
    }

    mutating func time() -> WallTime? {
        word().map { WallTime(milliseconds: Int64(bitPattern: $0)) }
    }
}
