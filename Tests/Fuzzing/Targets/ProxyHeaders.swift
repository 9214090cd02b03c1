import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// The header of the PROXY protocol, versions 1 and 2, and the bytes after it.
    static let proxyHeaders = FuzzTarget(
        "proxy-headers",
        words: [
            "PROXY ", "TCP4 ", "TCP6 ", "UNKNOWN", "1.2.3.4 ", "::1 ", "65535", "65536", "\r\n", "\r", "\n", " ",
            "\r\n\r\n\u{0}\r\nQUIT\n", "\u{21}\u{11}\u{0}\u{c}", "GET / HTTP/1.1\r\n",
        ],
        times: [
            LinearTime(
                [
                    .repeated("one line", "a", prefix: "PROXY "), .repeated("words", "PROXY "),
                    .repeated("blanks", " ", prefix: "PROXY TCP4"), .repeated("digits", "1", prefix: "PROXY TCP4 "),
                    .repeated("line feeds", "\n"), .repeated("beginnings", "\r\n\r\n\u{0}\r\nQUI"),
                    .made("extensions") { count in
                        [0x0d, 0x0a, 0x0d, 0x0a, 0, 0x0d, 0x0a] + Array("QUIT\n".utf8) + [
                            0x21, 0x11, 0xff, 0xff, 1, 2, 3, 4,
                        ]
                            + Array(repeatElement([4, 0, 0], count: count / 3).joined())
                    },
                ], nanosecondsPerByte: 50_000
            ) { bytes in
                _ = ProxyReading(bytes, pieces: [bytes.count])
                _ = ProxyReading(bytes, pieces: Array(1...bytes.count))
            }
        ]
    ) { bytes throws(Violation) in
        let whole = ProxyReading(bytes, pieces: [bytes.count])
        for pieces in [Segments.single(in: bytes), Segments.random(in: bytes)] {
            try require(
                ProxyReading(bytes, pieces: pieces) == whole, "parsed differently when cut at \(pieces.prefix(16))")
        }
        guard let header = whole.header else { return }
        let count = bytes.count - whole.leftover.count
        try require(Array(bytes.dropFirst(count)) == whole.leftover, "bytes after the header were consumed")
        let isBinary = bytes.starts(with: [0x0d, 0x0a, 0x0d, 0x0a, 0, 0x0d, 0x0a] + Array("QUIT\n".utf8))
        let isLine = bytes.starts(with: "PROXY ".utf8) && bytes[..<count].suffix(2) == [0x0d, 0x0a] && count <= 107
        try require(isBinary && count >= 16 || isLine, "an invalid header was accepted")
        guard let source = header.source else { return }
        guard let address = source.ipAddress, let port = source.port else {
            throw Violation("the source is not an address")
        }
        let family = source.protocol == .inet6 ? "TCP6" : "TCP4"
        let line = Array("PROXY \(family) \(address) \(address) \(port) \(port)\r\n".utf8)
        try require(
            ProxyReading(line, pieces: [line.count]).header == header, "the written source is parsed differently")
    }
}

private struct ProxyReading: Equatable {
    var header: ProxyHeader?
    var error: ProxyHeaderError?
    var leftover: [UInt8] = []

    init(_ bytes: [UInt8], pieces: [Int]) {
        var parser = ProxyHeaderParser()
        var buffer = ByteBuffer()
        var start = 0
        for end in pieces where error == nil {
            buffer.writeBytes(bytes[start..<end])
            start = end
            guard header == nil else { continue }
            do throws(ProxyHeaderError) {
                header = try parser.parse(&buffer)
            } catch {
                self.error = error
            }
        }
        if error == nil { leftover = Array(buffer.readableBytesView) }
    }
}
