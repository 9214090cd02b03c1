import CloakroomWire
import NIOCore

extension FuzzTarget {
    /// A request head built from names and values, as for HTTP/2: method and target on the first two lines, then names
    /// and values alternately. Parsing the built head must return the same fields.
    static let builtHeads = FuzzTarget(
        "built-heads",
        words: [
            "\n", "\r", "\r\n", ":", " ", "\t", "\u{0}", "\u{7f}", "é", "GET", "/", "host", "Host", "content-length",
            "cookie",
        ]
    ) { bytes throws(Violation) in
        let words = bytes.split(separator: 0x0a, maxSplits: 40, omittingEmptySubsequences: false).map {
            String(decoding: $0, as: UTF8.self)
        }
        let builder = RequestHeadBuilder(limits: HeadLimits(head: 2_048, fields: 8, target: 64))
        var built = RequestHead()
        var fields: [(name: String, value: [UInt8])] = []
        do throws(WireError) {
            try builder.begin(method: words[0], target: words.count > 1 ? words[1] : "", into: &built)
        } catch {
            return
        }
        for index in stride(from: 2, to: words.count - 1, by: 2) {
            do throws(WireError) {
                _ = try builder.append(name: words[index], value: words[index + 1], into: &built)
            } catch {
                continue
            }
            if index.isMultiple(of: 3) {
                builder.removeLast(from: &built)
            } else {
                fields.append((words[index], Array(words[index + 1].utf8)))
            }
        }
        builder.finish(&built)
        let plain = try PlainHead(built.bytes)
        try PlainHead.check(built.fields, in: built.bytes, are: fields)
        try plain.check(built.fields, in: built.bytes)
        var parser = HeadParser(limits: HeadLimits(head: 2_048, fields: 8, target: 64))
        var buffer = built.bytes
        var read = RequestHead()
        let isComplete: Bool
        do throws(WireError) {
            isComplete = try parser.parse(&buffer, into: &read)
        } catch {
            throw Violation("a built head is rejected: \(error)")
        }
        try require(isComplete && buffer.readableBytes == 0, "a built head ends at another position")
        try require(
            read.fields == built.fields && read.method == built.method && read.target == built.target
                && read.minorVersion == built.minorVersion, "a built head is parsed differently")
    }
}
