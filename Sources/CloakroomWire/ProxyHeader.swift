public import NIOCore

/// The PROXY protocol header of a connection that a proxy forwards, versions 1 and 2, as defined by HAProxy's
/// proxy-protocol.txt. Section numbers in comments refer to that document.
public struct ProxyHeader: Sendable, Hashable {
    /// The client's address and port. `nil` if the addresses of the connection itself apply: a connection of the proxy
    /// itself (`LOCAL`), one with unknown addresses (`UNKNOWN`, `UNSPEC`), or one that is not TCP over IP.
    public var source: SocketAddress?
}

/// Why the first bytes of a connection are not a valid PROXY header.
public enum ProxyHeaderError: Error, Sendable, Hashable, CaseIterable {
    /// The signature is of neither version.
    case signature
    /// Version 1: a line that is too long, does not end in CR LF or has unexpected words (§2.1).
    case line
    /// Version 1: an address that is invalid or not of the stated family; an invalid port (§2.1).
    case address
    /// Version 2: an undefined version, command, family or protocol (§2.2).
    case version
    /// Version 2: too short for its addresses, or longer than the limit (§2.2).
    case length
}

/// Parses the header at the start of a connection on a listener with the PROXY protocol. It never consumes bytes after
/// the header. Checksums and other extensions of version 2 are skipped.
public struct ProxyHeaderParser: Sendable {
    /// The maximum length of a version 1 line, including its end (§2.1).
    static let lineLimit = 107
    /// The maximum length of a version 2 header that is accepted. The document expects 536 bytes; extensions may
    /// contain names.
    static let binaryLimit = 4_096

    private enum Version {
        case undecided, line, binary
    }

    private static let word: [UInt8] = Array("PROXY ".utf8)
    private static let signature: [UInt8] = [
        0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a,
    ]
    /// The number of bytes of version 2 before its addresses.
    private static let fixedLength = 16

    private var form = Version.undecided
    /// The bytes read so far; for version 2 without those after the addresses.
    private var bytes: [UInt8] = []
    private var count = 0
    /// The length of a version 2 header.
    private var length = 0

    /// Creates a parser for one connection.
    public init() {}

    /// Storage of the bytes read so far, in bytes.
    var storage: Int { bytes.capacity }

    /// Continues parsing up to the end of the header.
    /// - Returns: The header, or `nil` if it is not complete yet.
    /// - Throws: ``ProxyHeaderError`` as soon as the header is known to be invalid. The connection then has to be
    ///   closed, because the protocol requires a header (§2).
    public mutating func parse(_ buffer: inout ByteBuffer) throws(ProxyHeaderError) -> ProxyHeader? {
        while let byte = buffer.readInteger(as: UInt8.self) {
            count += 1
            if bytes.count < Self.lineLimit { bytes.append(byte) }
            if form == .undecided { form = byte == Self.signature[0] ? .binary : .line }
            if let header = try form == .binary ? takeBinary(byte) : takeLine(byte) { return header }
        }
        return nil
    }

    // MARK: - Version 1

    private mutating func takeLine(_ byte: UInt8) throws(ProxyHeaderError) -> ProxyHeader? {
        if count <= Self.word.count {
            guard byte == Self.word[count - 1] else { throw .signature }
            return nil
        }
        let isBehindReturn = bytes[count - 2] == Byte.cr
        guard isBehindReturn == (byte == Byte.lf) else { throw .line }
        guard isBehindReturn else {
            guard count < Self.lineLimit else { throw .line }
            return nil
        }
        return try Self.header(line: bytes.dropLast(2))
    }

    private static func header(line: ArraySlice<UInt8>) throws(ProxyHeaderError) -> ProxyHeader {
        let words = line.split(separator: Byte.space, omittingEmptySubsequences: false)
        let family: NIOBSDSocket.ProtocolFamily
        switch String(decoding: words[1], as: UTF8.self) {
        case "TCP4": family = .inet
        case "TCP6": family = .inet6
        // All other content of such a line is ignored (§2.1).
        case "UNKNOWN": return ProxyHeader(source: nil)
        default: throw .line
        }
        guard words.count == 6 else { throw .line }
        let source = try address(words[2], port: words[4], family: family)
        _ = try address(words[3], port: words[5], family: family)
        return ProxyHeader(source: source)
    }

    private static func address(
        _ text: ArraySlice<UInt8>, port digits: ArraySlice<UInt8>, family: NIOBSDSocket.ProtocolFamily
    ) throws(ProxyHeaderError) -> SocketAddress {
        let isAddress = text.allSatisfy {
            Byte.hexadecimal($0) != nil || $0 == Byte.colon || $0 == Byte.period
        }
        guard isAddress, let port = port(digits),
            let address = try? SocketAddress(ipAddress: String(decoding: text, as: UTF8.self), port: port),
            address.protocol == family
        else { throw .address }
        return address
    }

    private static func port(_ digits: ArraySlice<UInt8>) -> Int? {
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }), digits.count == 1 || digits.first != 0x30 else {
            return nil
        }
        return UInt16(String(decoding: digits, as: UTF8.self)).map(Int.init)
    }

    // MARK: - Version 2

    private mutating func takeBinary(_ byte: UInt8) throws(ProxyHeaderError) -> ProxyHeader? {
        if count <= Self.signature.count {
            guard byte == Self.signature[count - 1] else { throw .signature }
            return nil
        }
        switch count {
        case 13: guard byte == 0x20 || byte == 0x21 else { throw .version }
        case 14: guard isLocal || Self.addressLengths[byte] != nil else { throw .version }
        case Self.fixedLength:
            length = Self.fixedLength + (Int(bytes[14]) << 8 | Int(bytes[15]))
            let addresses = isLocal ? 0 : Self.addressLengths[bytes[13]] ?? 0
            guard length <= Self.binaryLimit, length >= Self.fixedLength + addresses else { throw .length }
        default: break
        }
        guard count >= Self.fixedLength, count == length else { return nil }
        return ProxyHeader(source: isLocal ? nil : binarySource)
    }

    /// Whether the connection is from the proxy itself, as for its health checks. The family is ignored then (§2.2).
    private var isLocal: Bool { bytes[12] == 0x20 }

    /// The defined families and protocols, and the number of bytes of their addresses (§2.2).
    private static let addressLengths: [UInt8: Int] = [
        0x00: 0, 0x11: 12, 0x12: 12, 0x21: 36, 0x22: 36, 0x31: 216, 0x32: 216,
    ]

    private var binarySource: SocketAddress? {
        let size: Int
        switch bytes[13] {
        case 0x11: size = 4
        case 0x21: size = 16
        // Valid but unsupported: treated as unspecified (§2.2).
        default: return nil
        }
        let address = bytes[Self.fixedLength..<Self.fixedLength + size]
        let port = Self.fixedLength + 2 * size
        return try? SocketAddress(
            packedIPAddress: ByteBuffer(bytes: address), port: Int(bytes[port]) << 8 | Int(bytes[port + 1]))
    }
}
