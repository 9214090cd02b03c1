/// The client's session credential: 32 random bytes, written as 43 characters of base64url (RFC 4648 §5) in the session
/// cookie.
///
/// The ticket alone grants access to the session, so it is never printed. Stores hold only its ``SessionKey``.
public struct SessionTicket: Sendable, Hashable, Redacted {
    /// The number of characters of a ticket in its cookie.
    public static let characterCount = 43

    let word0: UInt64
    let word1: UInt64
    let word2: UInt64
    let word3: UInt64
    /// The site that it was issued or received at. Not in the cookie: the host of a request determines it.
    public var site = SiteTag.main

    /// Generates a new ticket.
    public init(using generator: inout some RandomNumberGenerator, site: SiteTag = .main) {
        self.site = site
        word0 = generator.next()
        word1 = generator.next()
        word2 = generator.next()
        word3 = generator.next()
    }

    /// Parses a cookie value.
    /// - Returns: `nil` unless it is the canonical encoding of 32 bytes: 43 characters of the alphabet, no padding, and
    ///   the last two bits zero.
    public init?(cookieValue: Span<UInt8>) {
        guard cookieValue.count == Self.characterCount else { return nil }
        let values = Self.values
        // 43 characters are 258 bits: four times ten characters, and the three between them that belong to two words.
        var seen: UInt64 = 0
        let first = Self.decode(cookieValue, from: 0, count: 10, values, &seen)
        let tenth = Self.decode(cookieValue, from: 10, count: 1, values, &seen)
        let second = Self.decode(cookieValue, from: 11, count: 10, values, &seen)
        let twentyFirst = Self.decode(cookieValue, from: 21, count: 1, values, &seen)
        let third = Self.decode(cookieValue, from: 22, count: 10, values, &seen)
        let fourth = Self.decode(cookieValue, from: 32, count: 10, values, &seen)
        let last = Self.decode(cookieValue, from: 42, count: 1, values, &seen)
        // The value of other characters has its top bit set; the words are then not used.
        guard seen & 0x80 == 0, last & 0x3 == 0 else { return nil }
        word0 = first << 4 | tenth >> 2
        word1 = tenth << 62 | second << 2 | twentyFirst >> 4
        word2 = twentyFirst << 60 | third
        word3 = fourth << 4 | last >> 2
    }

    /// Returns the values of up to ten characters, six bits each.
    /// - Parameter seen: Receives all values.
    @inline(__always)
    private static func decode(
        _ characters: Span<UInt8>, from start: Int, count: Int, _ values: [UInt8], _ seen: inout UInt64
    ) -> UInt64 {
        var bits: UInt64 = 0
        for index in start..<(start &+ count) {
            let value = UInt64(values[Int(characters[index])])
            seen |= value
            bits = bits << 6 | value
        }
        return bits
    }

    /// The value for the cookie, only for the `Set-Cookie` field of the client that signed in.
    public var cookieValue: String { Base64URL.encode(bytes) }

    /// The 32 bytes, for hashing.
    public var bytes: [UInt8] { [word0, word1, word2, word3].flatMap(\.bigEndianBytes) }

    /// Calls the closure with the 32 bytes, for hashing without an allocation. Those of another site than the default one
    /// follow the eight bytes of its tag.
    @inline(__always)
    public func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        // A tuple of words in network order has the bytes of the ticket in order; the pointer does not leave the
        // closure.
        let ordered = (
            site.value.bigEndian, word0.bigEndian, word1.bigEndian, word2.bigEndian, word3.bigEndian
        )
        let start = site == .main ? 8 : 0
        return withUnsafeBytes(of: ordered) { body(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    }

    /// Compares in a time that does not depend on the position of the first difference.
    public static func == (left: SessionTicket, right: SessionTicket) -> Bool {
        (left.word0 ^ right.word0) | (left.word1 ^ right.word1) | (left.word2 ^ right.word2)
            | (left.word3 ^ right.word3) | (left.site.value ^ right.site.value) == 0
    }

    /// The value of each character of the alphabet; 0xff for all others.
    private static let values: [UInt8] = (0..<256).map { Base64URL.value(UInt8($0)) ?? 0xff }
}

/// A site, as a part of its tickets: stores know the ticket of a session under the tag of its own site only.
///
/// Eight bytes, compared by value on the hot path and equal in every process and release, because the keys of stored
/// records depend on it.
public struct SiteTag: Sendable, Hashable {
    /// A hash of the name; 0 only for ``main``.
    public let value: UInt64

    /// The default site, whose sessions are those of a gateway without other sites.
    public static let main = SiteTag(value: 0)

    package init(_ name: String) {
        // The key is constant, because names are not secret. The configuration has no two names with one hash.
        let hash = KeyedHash(key0: 0x636c_6f61_6b72_6f6f, key1: 0x6d20_7369_7465_2031).hash(Array(name.utf8))
        self.init(value: hash == 0 ? 1 : hash)
    }

    private init(value: UInt64) { self.value = value }
}

/// The key under which a store keeps a session: SHA-256 of the ticket's bytes, see ``SessionTicket/withBytes(_:)``. It
/// grants no access.
public struct SessionKey: Sendable, Hashable {
    /// The first eight bytes of the digest, big endian; uniformly distributed, so suitable for selecting a shard.
    public let word0: UInt64
    /// The second eight bytes.
    public let word1: UInt64
    /// The third eight bytes.
    public let word2: UInt64
    /// The last eight bytes.
    public let word3: UInt64

    /// Creates a key from the four words of a digest, big endian.
    public init(_ word0: UInt64, _ word1: UInt64, _ word2: UInt64, _ word3: UInt64) {
        self.word0 = word0
        self.word1 = word1
        self.word2 = word2
        self.word3 = word3
    }

    /// Creates a key from a digest of 32 bytes: four loads, because an array would allocate on every request.
    @inlinable
    public init(digest: UnsafeRawBufferPointer) {
        func word(_ index: Int) -> UInt64 {
            UInt64(bigEndian: digest.loadUnaligned(fromByteOffset: 8 * index, as: UInt64.self))
        }
        self.init(word(0), word(1), word(2), word(3))
    }

    /// Creates a key from a digest.
    /// - Returns: `nil` unless it is 32 bytes long.
    public init?(bytes: [UInt8]) {
        guard bytes.count == 32 else { return nil }
        func word(_ index: Int) -> UInt64 { bytes[8 * index..<8 * index + 8].reduce(0) { $0 << 8 | UInt64($1) } }
        self.init(word(0), word(1), word(2), word(3))
    }

    /// The 32 bytes of the digest.
    public var bytes: [UInt8] { [word0, word1, word2, word3].flatMap(\.bigEndianBytes) }

    /// The identifier that users, logs and operators use for the session.
    public var id: SessionID { SessionID(word0) }

    /// Compares in a time that does not depend on the position of the first difference.
    public static func == (left: SessionKey, right: SessionKey) -> Bool {
        (left.word0 ^ right.word0) | (left.word1 ^ right.word1) | (left.word2 ^ right.word2)
            | (left.word3 ^ right.word3) == 0
    }

    /// Hashes one word only, because the digest is uniformly distributed.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(word1)
    }
}

extension UInt64 {
    /// The eight bytes in network order.
    package var bigEndianBytes: [UInt8] {
        withUnsafeBytes(of: bigEndian) { Array($0) }
    }
}
