// The HTTP/2 module is optional here: without it, the microbenchmarks of HPACK are left out.
#if canImport(CloakroomHTTP2)
    import Benchmark
    import CloakroomHTTP2
    import CloakroomWire
    import NIOCore

    /// Header compression of HTTP/2 in the steady state of a connection: the dynamic tables hold the repeated fields.
    func hpackBenchmarks() {
        Benchmark("HPACK: decode a request, 17 fields, new path") { benchmark in
            var decoder = HPACKDecoder()
            var head = RequestHead()
            _ = try decoder.decodeRequest(HPACKSamples.first.span, limits: HeadLimits(), into: &head)
            for _ in benchmark.scaledIterations {
                head.reset()
                guard
                    case .request = try decoder.decodeRequest(HPACKSamples.next.span, limits: HeadLimits(), into: &head)
                else { return benchmark.error("the block is rejected") }
            }
        }

        Benchmark("HPACK: encode a response, 9 fields") { benchmark in
            var input = ByteBuffer(string: Samples.response)
            var parser = HeadParser(limits: HeadLimits())
            var head = ResponseHead()
            guard try parser.parse(&input, into: &head) else { return benchmark.error("the head is incomplete") }
            let cache = ResponseLineCache()
            var encoder = HPACKEncoder()
            var output = ByteBuffer()
            for _ in benchmark.scaledIterations {
                output.clear()
                encoder.begin(status: head.status, into: &output)
                encoder.add(head, cache: cache, into: &output)
                blackHole(output.readableBytes)
            }
        }
    }

    /// Header blocks of a client: the fields of the browser's request, as literals with incremental indexing at first
    /// and by index afterwards, with the path as a literal without indexing (RFC 7541 §6).
    private enum HPACKSamples {
        private static let fields: [(String, String)] = Samples.browserRequest()
            .split(separator: "\r\n").dropFirst().compactMap { line in
                let parts = line.split(separator: ":", maxSplits: 1)
                guard parts.count == 2 else { return nil }
                let name = parts[0].lowercased()
                guard name != "host", name != "connection" else { return nil }
                return (name, String(parts[1].drop { $0 == " " }))
            }

        /// :method GET and :scheme https from the static table, :authority inserted, a path.
        static let first: [UInt8] =
            [0x82, 0x87, 0x41] + string("www.example.com") + [0x04] + string("/videos/417515716")
            + fields.flatMap { [0x40] + string($0.0) + string($0.1) }

        /// The same by index. The newest entry has index 62, and :authority is the oldest.
        static let next: [UInt8] =
            [0x82, 0x87, 0x80 | UInt8(62 + fields.count), 0x04] + string("/videos/417515717")
            + fields.indices.map { 0x80 | UInt8(62 + fields.count - 1 - $0) }

        private static func string(_ text: String) -> [UInt8] {
            let bytes = Array(text.utf8)
            guard bytes.count >= 127 else { return [UInt8(bytes.count)] + bytes }
            // A prefix of 7 bits, and one further byte (RFC 7541 §5.1).
            return [127, UInt8(bytes.count - 127)] + bytes
        }
    }
#endif
