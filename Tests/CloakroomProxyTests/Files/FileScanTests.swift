import CloakroomCore
import Foundation
import NIOCore
import TestSupport
import Testing

@testable import CloakroomProxy

@Suite("The files of a folder")
struct FileScanTests {
    private static let text = String(repeating: "body { color: red }\n", count: 200)

    @Test("Files and indexes of folders are listed by the normal forms of their paths")
    func listed() throws {
        let folder = try FolderFixture([
            "index.html": "a", "docs/index.html": "b", "docs/a b.txt": "c", "ü.txt": "d", "a+b~c.js": "e",
            "a[1].js": "f",
        ])
        try expect(
            folder.scan().paths,
            equals: [
                "/", "/%C3%BC.txt", "/a%5B1%5D.js", "/a+b~c.js", "/docs/", "/docs/a%20b.txt", "/docs/index.html",
                "/index.html",
            ])
        try expect(folder.scan { $0.index = "none" }.paths.contains("/"), equals: false)
    }

    @Test("Rule 92: hidden and excluded files are not listed, nor their encoded copies, in any case")
    func excluded() throws {
        let folder = try FolderFixture([
            ".env": "", ".env.gz": "", ".git/config": "", "a/.hidden/b": "", ".well-known/x": "", "a.js.map": "",
            "a.js.map.gz": "", "a.js.MAP": "", "a.js.map.gz.br": "", "a.js.map.zst": "", "a.js": "", "map": "",
            "b;c": "",
            "a\\b": "", "c#d": "",
        ])
        try expect(folder.scan { $0.names.exclude = [".map"] }.paths, equals: ["/.well-known/x", "/a.js", "/map"])
        try expect(folder.scan { $0.names.dotfiles = [] }.paths.contains("/.well-known/x"), equals: false)
    }

    @Test("Rule 92: links, FIFOs and files outside of the root are not listed")
    func special() throws {
        let folder = try FolderFixture(["a.txt": "a", "sub/b.txt": "b"])
        try folder.directory.write("secret", to: "outside.txt")
        try folder.link("outside.txt", to: "../outside.txt")
        try folder.link("passwd", to: "/etc/passwd")
        try folder.link("passwd.txt.gz", to: "/etc/passwd")
        try folder.link("inside.txt", to: "sub/b.txt")
        try folder.link("loop", to: ".")
        try folder.link("sub/up", to: "../sub")
        try folder.link("folder", to: "sub")
        try folder.link("missing", to: "nowhere")
        try folder.link("above", to: "..")
        expect(mkfifo("\(folder.path)/fifo", 0o600), equals: 0)
        try expect(folder.scan().paths, equals: ["/a.txt", "/sub/b.txt"])
        try expect(
            folder.scan { $0.names.links = .inside }.paths,
            equals: [
                "/a.txt", "/folder/b.txt", "/inside.txt", "/sub/b.txt",
            ])
    }

    @Test("Rule 92: a link inside leads to no hidden file, except through a folder of a Kubernetes volume")
    func linksInside() throws {
        let folder = try FolderFixture([".git/config": "x", "..2026/index.html": "y", ".env": "z"])
        try folder.link("config", to: ".git/config")
        try folder.link("env", to: ".env")
        try folder.link("..data", to: "..2026")
        try folder.link("index.html", to: "..data/index.html")
        try expect(folder.scan { $0.names.links = .inside }.paths, equals: ["/", "/index.html"])
    }

    @Test("The root may be a link, which each scan resolves anew")
    func linkedRoot() throws {
        let folder = try FolderFixture(["v1/a.txt": "1", "v2/b.txt": "2"])
        try folder.link("current", to: "v1")
        let files = folder.configuration { $0.root += "/current" }
        try expect(FileScan.run(files).paths, equals: ["/a.txt"])
        try FileManager.default.removeItem(atPath: files.root)
        try folder.link("current", to: "v2")
        try expect(FileScan.run(files).paths, equals: ["/b.txt"])
    }

    @Test("Files next to a file are its codings; without it they are files of their own")
    func siblings() throws {
        let folder = try FolderFixture([
            "a.css": Self.text, "a.css.br": "b", "a.css.gz": "g", "c.css.br": "c", "d.css": Self.text, "e.css": "small",
        ])
        let tree = try folder.scan()
        expect(tree["/a.css"]?.variants.map(\.coding), equals: [.identity, .br, .gzip])
        expect(tree["/a.css"]?.variants[2].bytes, equals: ByteBuffer(string: "g"))
        expect(tree["/c.css.br"]?.type, equals: "application/x-brotli")
        expect(tree["/c.css"] == nil)
        expect(tree["/d.css"]?.variants.map(\.coding), equals: [.identity, .gzip])
        expect(tree["/e.css"]?.variants.map(\.coding), equals: [.identity])
        let plain = try folder.scan {
            $0.codings.siblings = []
            $0.codings.gzip = false
        }
        expect(plain["/a.css"]?.variants.count, equals: 1)
        expect(plain["/d.css"]?.variants.count, equals: 1)
    }

    @Test("Tags are digests of the content, different for each coding")
    func tags() throws {
        let folder = try FolderFixture(["a.css": Self.text, "b.css": Self.text, "c.css": Self.text + "."])
        let tree = try folder.scan()
        let tags = { (path: String) in tree[path]?.variants.map { String(decoding: $0.tag, as: UTF8.self) } ?? [] }
        expect(tags("/a.css"), equals: tags("/b.css"))
        expect(Set(tags("/a.css") + tags("/c.css")).count, equals: 4)
        expect(tags("/a.css")[1].hasSuffix("-gz\""))
    }

    @Test("gzip restores the text, and only what becomes smaller is compressed")
    func gzip() throws {
        let folder = try FolderFixture()
        try folder.write(Data(Self.text.utf8), to: "a.css")
        var random = SystemRandomNumberGenerator()
        try folder.write(Data((0..<4_096).map { _ in UInt8.random(in: 0...255, using: &random) }), to: "b.css")
        try folder.write(Data(Self.text.utf8), to: "c.png")
        let tree = try folder.scan()
        expect(tree["/b.css"]?.variants.count, equals: 1)
        expect(tree["/c.png"]?.variants.count, equals: 1)
        let made = try require(tree["/a.css"]?.variants.last?.bytes)
        try Data(made.readableBytesView).write(to: URL(filePath: folder.directory.path(of: "a.gz")))
        let unzip = Process()
        unzip.executableURL = URL(filePath: "/usr/bin/env")
        unzip.arguments = ["gzip", "-d", folder.directory.path(of: "a.gz")]
        try unzip.run()
        unzip.waitUntilExit()
        expect(folder.directory.text(of: "a"), equals: Self.text)
    }

    @Test("Rule 95: the smallest files are in memory, up to the limit with what is compressed")
    func memory() throws {
        let folder = try FolderFixture(["a.bin": "12345", "b.bin": "123456", "c.bin": "1234567"])
        let tree = try folder.scan { $0.scan.memory = 11 }
        expect(["/a.bin", "/b.bin", "/c.bin"].map { tree[$0]?.variants[0].bytes != nil }, equals: [true, true, false])
        try folder.write(Data(count: 262_145), to: "large.bin")
        try expect(folder.scan()["/large.bin"]?.variants[0].bytes, equals: nil)
        try folder.write(Self.text, to: "a.css")
        try expect(folder.scan { $0.scan.memory = Self.text.utf8.count + 20 }["/a.css"]?.variants.count, equals: 1)
    }

    @Test("Rule 95: a folder with too many names, or none that can be read, has no tree")
    func limits() throws {
        let folder = try FolderFixture(["a": "", "b": "", "c/d": ""])
        try expect(folder.scan { $0.scan.files = 4 }.paths.count, equals: 3)
        #expect(throws: FileScanError.tooMany(3)) { try folder.scan { $0.scan.files = 3 } }
        #expect(throws: FileScanError.unreadable) { try folder.scan { $0.root += "/missing" } }
        #expect(throws: FileScanError.unreadable) { try folder.scan { $0.root += "/a" } }
        let deep = try FolderFixture([
            [String](repeating: "a", count: 31).joined(separator: "/") + "/f": "",
            [String](repeating: "b", count: 33).joined(separator: "/") + "/f": "",
        ])
        try expect(deep.scan().paths.map(\.utf8.count), equals: [64])
    }

    @Test("An unchanged folder is not read again, and a changed file alone is")
    func unchanged() throws {
        let folder = try FolderFixture(["a.txt": "a", "b.txt": "b"])
        var first = try folder.scan()
        first.contents = first.contents.mapValues {
            FileContent(
                path: $0.path, identity: $0.identity, hash: $0.hash, bytes: $0.bytes, gzip: $0.gzip, isSettled: true)
        }
        try expect(FileScan.run(folder.configuration(), previous: first)["/a.txt"] === first["/a.txt"])
        try folder.write("c", to: "b.txt")
        let second = try FileScan.run(folder.configuration(), previous: first)
        let a = Array("\(folder.path)/a.txt".utf8)
        expect(second.contents[a] === first.contents[a])
        expect(second["/b.txt"]?.variants[0].bytes, equals: ByteBuffer(string: "c"))
    }

    @Test("A file that was just written is read again, because its times may not show the next change")
    func unsettled() throws {
        let folder = try FolderFixture(["a.txt": "a"])
        let first = try folder.scan()
        let second = try FileScan.run(folder.configuration(), previous: first)
        expect(first.contents.values.first !== second.contents.values.first)
        expect(first.stamp, equals: second.stamp)
    }

    @Test("Rule 95: a file of a terabyte is not read, and its tag changes with it", .timeLimit(.minutes(1)))
    func sparse() throws {
        let folder = try FolderFixture(["small.bin": "a"])
        let tag = { try folder.scan()["/large.bin"]?.variants[0].tag }
        func write(_ size: UInt64) throws {
            try folder.write("a", to: "large.bin")
            let file = try FileHandle(forWritingTo: URL(filePath: "\(folder.path)/large.bin"))
            try file.truncate(atOffset: size)
            try file.close()
        }
        try write(1 << 40)
        let first = try require(tag())
        try expect(tag(), equals: first)
        try write(1 << 40)
        try expect(tag() != first)
    }

    @Test("Rule 95: a stop ends a scan")
    func stopped() throws {
        let folder = try FolderFixture(["a.txt": "a"])
        let stop = FlagSetOnce()
        try FileScan.$stop.withValue(stop) { () throws in
            try expect(folder.scan().paths, equals: ["/a.txt"])
            stop.set()
            #expect(throws: FileScanError.stopped) { try folder.scan() }
        }
    }

    @Test("Rule 92: names are compared by bytes: no character combines with a dot, and equal texts are two files")
    func bytes() throws {
        let folder = try FolderFixture(["secret\u{600}.map": "a", ".\u{301}env": "b", "caf\u{e9}.txt": "c"])
        try folder.write("d", to: "cafe\u{301}.txt")
        let tree = try folder.scan { $0.names.exclude = [".map"] }
        expect(tree.paths, equals: ["/caf%C3%A9.txt", "/cafe%CC%81.txt"])
        expect(tree["/caf%C3%A9.txt"]?.variants[0].bytes, equals: ByteBuffer(string: "c"))
        expect(tree["/cafe%CC%81.txt"]?.variants[0].bytes, equals: ByteBuffer(string: "d"))
    }

    @Test("A folder that changes with every scan is served as the fifth one found it, with a warning")
    func unstable() throws {
        let fixture = try FolderFixture(["a.txt": "0"])
        let log = RecordedLog()
        let folder = try FileFolder(fixture.configuration())
        let served = { folder.tree["/a.txt"]?.variants[0].bytes.map { String(buffer: $0) } }
        for scan in 1...10 {
            try fixture.write("\(scan)", to: "a.txt")
            folder.scan(isComplete: false, logger: log.logger)
            expect(served(), equals: (scan < 5 ? "0" : scan < 10 ? "5" : "10"))
        }
        expect(log.lines("event", "files_unstable").count, equals: 1)
        try fixture.write("11", to: "a.txt")
        folder.scan(isComplete: false, logger: log.logger)
        expect(served(), equals: "10")
        folder.scan(isComplete: false, logger: log.logger)
        expect(served(), equals: "11", "two scans have found the same")
    }
}
