import CloakroomCore
import TestSupport
import Testing

@testable import CloakroomConfig

@Suite("Routes that serve files")
struct FilesSectionTests {
    /// The valid configuration with a third route; the line of its keys is 26.
    private static func fixture(_ keys: String, path: String = "/app/*") -> String {
        ConfigFixture.good + "  - { name: app, path: \"\(path)\", requiresAuthorization: false, \(keys) }\n"
    }

    private static func files(_ keys: String) throws -> FilesConfiguration? {
        try ConfigFixture(fixture("files: { root: /srv/app\(keys) }")).load().configuration.routes[2].files
    }

    @Test("All keys but root have defaults, and methods is GET")
    func defaults() throws {
        var expected = FilesConfiguration()
        expected.root = "/srv/app"
        try expect(Self.files(""), equals: expected)
        try expect(
            ConfigFixture(Self.fixture("files: { root: a }")).load().configuration.routes[2].methods, equals: ["GET"])
    }

    @Test("Every key is read")
    func keys() throws {
        let files = try require(
            Self.files(
                ", index: a.html, fallback: b/c.html, immutable: [\"/x/*\"], codings: { siblings: [], gzip: false },"
                    + " names: { types: { Foo: text/x-foo }, exclude: [.map], dotfiles: [], links: inside },"
                    + " scan: { every: 0s, memory: 1MiB, files: 10 }"))
        expect(files.index, equals: "a.html")
        expect(files.fallback, equals: "b/c.html")
        expect(files.immutable.map(\.description), equals: ["/x/*"])
        expect(files.codings.siblings.isEmpty && !files.codings.gzip)
        expect(files.names.types, equals: ["foo": "text/x-foo"])
        expect(files.names.exclude, equals: [".map"])
        expect(empty: files.names.dotfiles)
        expect(files.names.links, equals: .inside)
        expect(files.scan.every, equals: .zero)
        expect(files.scan.memory, equals: 1_048_576)
        expect(files.scan.files, equals: 10)
    }

    @Test(
        "A wrong value is reported at its key with a remedy",
        arguments: [
            ("files: {}", "/app/*", "files.root: "),
            (
                "files: { root: a }", "/app",
                "path: must be a path with * at its end for files, not /app (write such as /app/*)"
            ),
            ("files: { root: a }", "/{x}/*", "path: must be a path with * at its end for files, not /{x}/*"),
            ("files: { root: a }, methods: [GET, POST]", "/app/*", "POST conflicts with files, which are only read"),
            (
                "files: { root: a }, redirect: { to: /a }", "/app/*",
                "files: conflicts with redirect (remove one of the two)"
            ),
            ("files: { root: a }, upstream: api", "/app/*", "upstream: conflicts with files: nothing is forwarded"),
            ("files: { root: a }, websocket: true", "/app/*", "websocket: conflicts with files: nothing is forwarded"),
            (
                "files: { root: a, fallback: ../a }", "/app/*",
                "fallback: must be the path of a file below root, not \"../a\""
            ),
            ("files: { root: a, names: { exclude: [map] } }", "/app/*", "must be an ending in lower case with its dot"),
            ("files: { root: a, names: { dotfiles: [a] } }", "/app/*", "must be a name that begins with a dot"),
            ("files: { root: a, names: { types: { a: \"x\" } } }", "/app/*", "must be a media type, not \"x\""),
            ("files: { root: a, codings: { siblings: [deflate] } }", "/app/*", "must be one of the allowed values"),
            ("files: { root: a, scan: { files: 0 } }", "/app/*", "must be in the allowed range, not 0"),
        ])
    func wrong(keys: String, path: String, message: String) throws {
        let errors = try ConfigFixture(Self.fixture(keys, path: path)).valueErrors()
        expect(errors.contains { $0.contains("routes.2.") && $0.contains(message) }, "\(errors)")
    }

    @Test("routes shows the folder, and explain what a request gets")
    func reports() throws {
        let fixture = try ConfigFixture(Self.fixture("files: { root: /srv/app, fallback: index.html }"))
        expect(
            fixture.report { CommandReport.routes($0) }.rows.contains("app GET /app/* files /srv/app public -"))
        let content = FileContent(
            path: "/srv/app/a.js", identity: FileIdentity(device: 1, inode: 2, size: 5, modified: 3, changed: 4),
            hash: "aa", bytes: nil, gzip: nil, isSettled: true)
        let entry = FileEntry([(.identity, content, nil)], type: "text/javascript", isImmutable: false)
        var tree = FileTree()
        for path in ["/a.js", "/docs/"] { tree[Array(path.utf8)] = entry }
        tree.fallback = entry
        let explain = { [tree] (path: String) in
            fixture.report { CommandReport.explain($0, method: "GET", target: path) { _ in tree } }.rows.last
        }
        expect(
            explain("/app/a.js"), equals: "file: /srv/app/a.js (text/javascript; identity 5 bytes; on disk; no-cache)")
        expect(explain("/app/docs"), equals: "file: 308 to the path with a slash at its end")
        expect(explain("/app/x"), equals: "file: none at /srv/app/x: 404; navigations get index.html")
    }

    @Test("routes --diff reports a new public folder, and another folder or more files of a public route")
    func differences() throws {
        let changes = { (old: String, new: String) throws -> CommandReport in
            try ConfigFixture(new).changes(since: ConfigFixture(old))
        }
        let one = Self.fixture("files: { root: /srv/app }")
        let added = try changes(ConfigFixture.good, one)
        expect(added.exitCode == 3 && added.text.contains("added public"))
        let moved = try changes(one, Self.fixture("files: { root: /srv/other }"))
        expect(moved.exitCode == 3 && moved.text.contains("to files /srv/other, was files /srv/app"))
        try expect(changes(one, one).text, equals: "no change\n")
        let less = Self.fixture("files: { root: /srv/app, names: { exclude: [.map], dotfiles: [] } }")
        let more = Self.fixture("files: { root: /srv/app, names: { links: inside } }")
        let widened = try changes(less, more)
        expect(widened.exitCode == 3 && widened.text.contains("app, .map, .well-known, links"), "\(widened.text)")
        try expect(changes(more, less).text, equals: "no change\n")
    }
}
