import CloakroomWire
import NIOCore
import TestSupport
import Testing

@testable import CloakroomCore

@Suite("What a request for a file gets")
struct FileResponseTests {
    private static func content(_ size: Int, hash: String) -> FileContent {
        FileContent(
            path: "/srv/a", identity: FileIdentity(device: 1, inode: 2, size: size, modified: 3, changed: 4),
            hash: hash,
            bytes: nil, gzip: nil, isSettled: true)
    }

    /// A file of 1,000 bytes, and its codings.
    private static let entry = FileEntry(
        [
            (.identity, content(1_000, hash: "aa"), nil), (.br, content(200, hash: "bb"), nil),
            (.zstd, content(250, hash: "cc"), nil), (.gzip, content(300, hash: "dd"), nil),
        ], type: "text/css", isImmutable: false)

    /// The response in one word.
    private static func decide(
        _ lines: [String], of entry: FileEntry = Self.entry, isGET: Bool = true
    ) throws -> String {
        let head = try RequestHead.with(lines: lines)
        return switch FileResponse.decide(entry, head, isGET: isGET) {
        case .full(let variant): "\(variant.coding)"
        case .part(let variant, let range): "\(variant.coding) \(range)"
        case .notModified(let variant): "304 \(variant.coding)"
        case .preconditionFailed: "412"
        case .unsatisfiable(let size): "416 \(size)"
        }
    }

    @Test(
        "The coding with the highest weight is sent, of equal ones the smallest",
        arguments: [
            ("", "identity"), ("gzip", "gzip"), ("gzip, deflate, br, zstd", "br"), ("GZIP", "gzip"),
            ("gzip;q=1, br;q=0.5", "gzip"), ("gzip; q=0.5 , zstd;Q=0.6", "zstd"), ("br;q=0", "identity"),
            ("*", "br"), ("*;q=0", "identity"), ("*;q=0, gzip", "gzip"), ("br;q=0, *", "zstd"),
            ("identity", "identity"), ("identity;q=0", "identity"), ("identity;q=0.5, gzip;q=0.4", "identity"),
            ("gzip;q=0.0001", "identity"), ("gzip;x=1", "identity"), ("br;q=", "identity"), ("br;q=1.x", "identity"),
            (";;,,;", "identity"), ("deflate", "identity"),
        ])
    func coding(value: String, expected: String) throws {
        try expect(Self.decide(["Accept-Encoding: \(value)"]), equals: expected)
    }

    @Test("Rule 95: of Accept-Encoding 16 members are read, over all of its lines")
    func members() throws {
        let many = [String](repeating: "x", count: 16).joined(separator: ",")
        try expect(Self.decide(["Accept-Encoding: \(many)", "Accept-Encoding: br"]), equals: "identity")
        try expect(Self.decide(["Accept-Encoding: \(many.dropLast(2))", "Accept-Encoding: br"]), equals: "br")
    }

    @Test("Rule 95: the cost is linear in the length of the fields", .timeLimit(.minutes(1)))
    func cost() throws {
        let heads = try [200, 1_600].map { count in
            let list = [String](repeating: "\"x\"", count: count).joined(separator: ",")
            return try RequestHead.with(lines: ["Accept-Encoding: \(list)", "If-None-Match: \(list)"])
        }
        let decide = { (head: RequestHead) in
            for _ in 0..<100 { _ = FileResponse.decide(Self.entry, head, isGET: true) }
        }
        let ratio = LinearTime.ratio({ decide(heads[0]) }, to: { decide(heads[1]) })
        #expect(ratio < 24, "8 times the length")
    }

    @Test(
        "One range of the plain file is sent, everything else is ignored or unsatisfiable",
        arguments: [
            ("bytes=0-0", "identity 0..<1"), ("bytes=10-19", "identity 10..<20"), ("BYTES=990-", "identity 990..<1000"),
            ("bytes=-10", "identity 990..<1000"), ("bytes=-2000", "identity 0..<1000"),
            ("bytes=0-99999999999999999999", "identity 0..<1000"), ("bytes=999-999", "identity 999..<1000"),
            ("bytes=1000-", "416 1000"), ("bytes=9223372036854775807-", "416 1000"), ("bytes=-0", "416 1000"),
            ("bytes=5-4", "br"), ("bytes=0-1,3-4", "br"), ("bytes=", "br"), ("bytes=-", "br"), ("bytes=a-b", "br"),
            ("bytes=0x1-2", "br"), ("bytes= 0-1", "br"), ("items=0-1", "br"), ("bytes", "br"), ("", "br"),
            ("bytes=--1", "br"), ("bytes=1--2", "br"),
        ])
    func range(value: String, expected: String) throws {
        try expect(Self.decide(["Range: \(value)", "Accept-Encoding: br"]), equals: expected)
    }

    @Test("A range is ignored for HEAD, for an empty file, and if there are two")
    func noRange() throws {
        let empty = FileEntry(
            [(.identity, Self.content(0, hash: "aa"), nil)], type: "text/css", isImmutable: false)
        try expect(Self.decide(["Range: bytes=0-1"], isGET: false), equals: "identity")
        try expect(Self.decide(["Range: bytes=0-1"], of: empty), equals: "identity")
        try expect(Self.decide(["Range: bytes=0-1", "Range: bytes=0-1"]), equals: "identity")
        try expect(Self.decide(["Range: bytes=0-1", "If-Range: \"aa\"", "If-Range: \"aa\""]), equals: "identity")
    }

    @Test(
        "If-Range needs the strong tag of the plain file",
        arguments: [
            ("\"aa\"", "identity 0..<1"), ("W/\"aa\"", "identity"), ("\"bb-br\"", "identity"), ("aa", "identity"),
            ("Sun, 06 Nov 1994 08:49:37 GMT", "identity"),
        ])
    func ifRange(value: String, expected: String) throws {
        try expect(Self.decide(["Range: bytes=0-0", "If-Range: \(value)"]), equals: expected)
    }

    @Test(
        "If-None-Match compares weakly, If-Match strongly, each with the tag of the coding",
        arguments: [
            (["If-None-Match: \"aa\""], "304 identity"), (["If-None-Match: W/\"aa\""], "304 identity"),
            (["If-None-Match: \"x\", \"aa\""], "304 identity"), (["If-None-Match: *"], "304 identity"),
            (["If-None-Match: \"x\"", "If-None-Match: \"aa\""], "304 identity"), (["If-None-Match: \"a\""], "identity"),
            (["If-None-Match: aa"], "identity"), (["If-None-Match: \"aa\"", "Accept-Encoding: gzip"], "gzip"),
            (["If-None-Match: \"dd-gz\"", "Accept-Encoding: gzip"], "304 gzip"),
            (["If-None-Match: \"aa\"", "Range: bytes=0-0"], "304 identity"),
            (["If-Match: \"aa\""], "identity"), (["If-Match: *"], "identity"), (["If-Match: W/\"aa\""], "412"),
            (["If-Match: \"x\""], "412"), (["If-Match:"], "412"),
            (["If-Match: \"x\"", "If-Match: \"aa\""], "identity"),
            (["If-Match: \"x\"", "If-None-Match: \"aa\""], "412"),
            (["If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"], "identity"),
            (["If-Unmodified-Since: Sat, 01 Jan 2000 00:00:00 GMT"], "identity"),
        ])
    func conditions(lines: [String], expected: String) throws {
        try expect(Self.decide(lines), equals: expected)
    }

    @Test("Field lines show what the response depends on, and 304 does not describe the content")
    func fieldLines() {
        let gzip = Self.entry.variants[3]
        expect(
            String(decoding: Self.entry.fieldLines(gzip, isPrivate: true, isFallback: true), as: UTF8.self),
            equals: "Cache-Control: private, no-cache\r\nVary: Cookie\r\nContent-Type: text/css\r\n"
                + "Accept-Ranges: bytes\r\nContent-Encoding: gzip\r\nX-Content-Type-Options: nosniff\r\n"
                + "Vary: Accept-Encoding\r\nETag: \"dd-gz\"\r\nVary: \(FetchMetadata.shownVary)\r\n")
        let lines = Self.entry.fieldLines(gzip, isPrivate: false, isFallback: false, isModified: false)
        expect(
            String(decoding: lines, as: UTF8.self),
            equals:
                "Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\nVary: Accept-Encoding\r\nETag: \"dd-gz\"\r\n"
        )
    }

    @Test("A file without codings does not vary by Accept-Encoding, and a plain variant has no coding")
    func plainFieldLines() {
        let only = FileEntry([(.identity, Self.content(1, hash: "aa"), nil)], type: "image/png", isImmutable: true)
        expect(
            String(decoding: only.fieldLines(only.variants[0], isPrivate: false, isFallback: false), as: UTF8.self),
            equals: "Cache-Control: public, max-age=31536000, immutable\r\nContent-Type: image/png\r\n"
                + "Accept-Ranges: bytes\r\nX-Content-Type-Options: nosniff\r\nETag: \"aa\"\r\n")
        let lines = Self.entry.fieldLines(Self.entry.variants[0], isPrivate: false, isFallback: false)
        expect(!String(decoding: lines, as: UTF8.self).contains("Content-Encoding"))
    }

    @Test("Immutable files are kept for a year, but never HTML")
    func immutable() {
        let sources: [FileEntry.Source] = [(.identity, Self.content(1, hash: "aa"), nil)]
        let script = FileEntry(sources, type: "text/javascript", isImmutable: true)
        expect(script.cacheControl(isPrivate: false), equals: "public, max-age=31536000, immutable")
        expect(script.cacheControl(isPrivate: true), equals: "private, max-age=31536000, immutable")
        let page = FileEntry(sources, type: "text/html; charset=utf-8", isImmutable: true)
        expect(page.cacheControl(isPrivate: false), equals: "no-cache")
    }

    @Test(
        "Types are those of the ending, and unknown ones are not shown",
        arguments: [
            ("a.html", "text/html; charset=utf-8"), ("A.JS", "text/javascript; charset=utf-8"),
            ("a.b.svg", "image/svg+xml"),
            ("a.yml", "application/yaml"), ("a.own", "text/x-own"), ("a.exe", "application/octet-stream"),
            ("README", "application/octet-stream"), (".html", "text/html; charset=utf-8"),
        ])
    func types(name: String, expected: String) {
        expect(FileTypes.type(of: name, configured: ["own": "text/x-own"]), equals: expected)
    }

    @Test("Text is compressed, and archives of XML are not")
    func text() {
        let isText = { (name: String) in FileTypes.isText(FileTypes.type(of: name, configured: [:])) }
        expect(["a.css", "a.json", "a.svg", "a.wasm"].allSatisfy(isText))
        expect(!["a.docx", "a.xlsx", "a.png", "a"].contains(where: isText))
    }

    @Test("Immutable paths are patterns below the root")
    func immutablePaths() throws {
        var files = FilesConfiguration()
        expect(!files.isImmutable(Array("/assets/a.js".utf8)))
        files.immutable = [try PathPattern("/assets/*"), try PathPattern("/v/{n}/a.js")]
        for path in ["/assets/a.js", "/assets/x/a.js", "/assets/", "/v/1/a.js"] {
            expect(files.isImmutable(Array(path.utf8)), "\(path)")
        }
        for path in ["/assets", "/a.js", "/v/1/2/a.js", "/"] {
            expect(!files.isImmutable(Array(path.utf8)), "\(path)")
        }
    }
}
