import CZlib
package import CloakroomCore
import CloakroomWire
import Crypto
import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Lists the files of a folder and reads those that have changed. Blocks, so it runs on a thread of its own.
///
/// Folder `Files/`: scans folders, and sends files.
package struct FileScan {
    /// A regular file and the place where it is served.
    private struct Found {
        let name: String
        /// The path below the root in its normal form.
        let path: [UInt8]
        /// The path of the file.
        let file: String
        let identity: FileIdentity
    }

    private let configuration: FilesConfiguration
    private let previous: FileTree?
    private let root: String
    private var found: [Found] = []
    private var names = 0
    private var skipped = 0
    private var memory = 0

    /// The maximum depth of folders.
    private static let maxDepth = 32
    /// The maximum size of a file in memory, in bytes.
    private static let maxInMemory = 262_144
    /// The sizes of files that are compressed, in bytes.
    private static let compressed = 1_024...4_194_304

    /// - Parameter previous: The last tree of the same folder.
    /// - Returns: The previous tree if nothing has changed.
    package static func run(
        _ configuration: FilesConfiguration, previous: FileTree? = nil
    ) throws(FileScanError) -> FileTree {
        guard let path = realpath(configuration.root, nil) else { throw .unreadable }
        defer { free(path) }
        var scan = FileScan(configuration, previous, root: String(cString: path))
        try scan.list("", file: scan.root, above: [])
        return scan.makeTree()
    }

    private init(_ configuration: FilesConfiguration, _ previous: FileTree?, root: String) {
        self.configuration = configuration
        self.previous = previous
        self.root = root
    }

    // MARK: - Names

    /// Lists a folder and those below it.
    /// - Parameters:
    ///   - path: The path below the root, percent-encoded.
    ///   - above: The folders that contain it: a link to one of them is not followed.
    private mutating func list(_ path: String, file: String, above: [FileIdentity]) throws(FileScanError) {
        guard let folder = opendir(file) else {
            guard !path.isEmpty else { throw .unreadable }
            return skipped += 1
        }
        var entries: [String] = []
        while let entry = readdir(folder) {
            let offset = MemoryLayout<dirent>.offset(of: \.d_name) ?? 0
            let start = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)
            guard let name = String(validatingCString: start) else {
                skipped += 1
                continue
            }
            guard name != ".", name != ".." else { continue }
            names += 1
            guard names <= configuration.scan.files else {
                closedir(folder)
                throw .tooMany(configuration.scan.files)
            }
            entries.append(name)
        }
        closedir(folder)
        for name in entries.sorted() {
            try visit(name, path: "\(path)/\(Self.encoded(name))", file: "\(file)/\(name)", above: above)
        }
    }

    private mutating func visit(
        _ name: String, path: String, file: String, above: [FileIdentity]
    ) throws(FileScanError) {
        var status = stat()
        var file = file
        var normal: [UInt8] = []
        guard isServed(name), lstat(file, &status) == 0, let target = Self.normalPath(path, &normal) else {
            return skipped += 1
        }
        if status.st_mode & S_IFMT == S_IFLNK {
            guard configuration.names.links == .inside, let resolved = realpath(file, nil) else { return skipped += 1 }
            file = String(cString: resolved)
            free(resolved)
            // Hidden files stay hidden; the folders of a Kubernetes volume begin with two dots.
            guard file.hasPrefix(root + "/"), lstat(file, &status) == 0,
                file.dropFirst(root.count).split(separator: "/").allSatisfy({
                    $0.hasPrefix("..") || isServed(String($0))
                })
            else { return skipped += 1 }
        }
        if status.st_mode & S_IFMT == S_IFDIR {
            let identity = FileIdentity(
                device: UInt64(status.st_dev), inode: UInt64(status.st_ino), size: 0, modified: 0, changed: 0)
            guard above.count < Self.maxDepth, !above.contains(identity) else { return skipped += 1 }
            return try list(path, file: file, above: above + [identity])
        }
        guard let identity = FileIdentity(status) else { return skipped += 1 }
        found.append(Found(name: name, path: target, file: file, identity: identity))
    }

    private func isServed(_ name: String) -> Bool {
        if name.hasPrefix("."), !configuration.names.dotfiles.contains(name) { return false }
        // An encoded file is its content.
        var name = name.lowercased()
        while let coding = ContentCoding.allCases.dropFirst().first(where: { name.hasSuffix($0.ending) }) {
            if configuration.names.exclude.contains(where: name.hasSuffix) { return false }
            name.removeLast(coding.ending.count)
        }
        return !configuration.names.exclude.contains(where: name.hasSuffix)
    }

    /// Percent-encodes all bytes but letters, digits, and `-._~`.
    private static func encoded(_ name: String) -> String {
        var bytes: [UInt8] = []
        for byte in name.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"), UInt8(ascii: "+"):
                bytes.append(byte)
            default: bytes += Array("%".utf8) + Array(Byte.hexString([byte]).utf8)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The normal form of a path; `nil` if requests with it are rejected.
    private static func normalPath(_ path: String, _ scratch: inout [UInt8]) -> [UInt8]? {
        let bytes = Array(path.utf8)
        guard let target = try? RequestTarget.parse(bytes.span, scratch: &scratch), target.query.isEmpty else {
            return nil
        }
        return target.isPathRewritten ? scratch : bytes
    }

    // MARK: - Contents

    private mutating func makeTree() -> FileTree {
        var digest = SHA256()
        for file in found {
            digest.update(data: file.path)
            // Plain memory without padding.
            withUnsafeBytes(of: file.identity) { digest.update(bufferPointer: $0) }
        }
        let stamp = Array(digest.finalize())
        if let previous, previous.stamp == stamp, previous.contents.count == Set(found.map(\.file)).count,
            previous.contents.values.allSatisfy(\.isSettled)
        {
            return previous
        }
        var contents: [String: FileContent] = [:]
        var served: [[UInt8]: FileContent] = [:]
        // The smallest files first, so that as many as possible are in memory.
        let ordered = found.sorted { ($0.identity.size, $0.file) < ($1.identity.size, $1.file) }
        for file in ordered {
            // The system may have no descriptor for the moment.
            let known = previous?.contents[file.file].flatMap { $0.identity == file.identity ? $0 : nil }
            if let content = contents[file.file] ?? content(of: file) ?? known {
                contents[file.file] = content
                served[file.path] = content
            } else {
                skipped += 1
            }
        }
        var entries: [[UInt8]: FileEntry] = [:]
        for file in found {
            guard let content = served[file.path] else { continue }
            var variants = [FileEntry.Variant(.identity, content, bytes: content.bytes)]
            for coding in configuration.codings.siblings {
                guard let sibling = served[file.path + Array(coding.ending.utf8)] else { continue }
                variants.append(FileEntry.Variant(coding, sibling, bytes: sibling.bytes))
            }
            if let gzip = content.gzip, !variants.contains(where: { $0.coding == .gzip }) {
                variants.append(FileEntry.Variant(.gzip, content, bytes: gzip))
            }
            let entry = FileEntry(
                variants, type: FileTypes.type(of: file.name, configured: configuration.names.types),
                isImmutable: configuration.isImmutable(file.path))
            entries[file.path] = entry
            if file.name == configuration.index, let slash = file.path.lastIndex(of: UInt8(ascii: "/")) {
                entries[Array(file.path[...slash])] = entry
            }
        }
        let fallback = configuration.fallback.flatMap { entries[Array("/\($0)".utf8)] }
        return FileTree(entries: entries, fallback: fallback, contents: contents, skipped: skipped, stamp: stamp)
    }

    /// Reads a file, unless it is known.
    /// - Returns: `nil` if it cannot be read, or changed meanwhile.
    private mutating func content(of file: Found) -> FileContent? {
        let size = file.identity.size
        let isKept = size <= Self.maxInMemory && memory + size <= configuration.scan.memory
        if let known = previous?.contents[file.file], known.isSettled, known.identity == file.identity,
            (known.bytes != nil) == isKept, memory + known.memory <= configuration.scan.memory
        {
            memory += known.memory
            return known
        }
        guard let (descriptor, identity) = FileIdentity.openFile(file.file) else { return nil }
        defer { close(descriptor) }
        // A folder may have been replaced by a link since it was listed: the system knows where the file is.
        guard identity == file.identity, isInside(descriptor) else { return nil }
        let isText =
            configuration.codings.gzip && Self.compressed.contains(size)
            && FileTypes.isText(FileTypes.type(of: file.name, configured: configuration.names.types))
        let begin = Self.now()
        var whole = ByteBuffer()
        var part = [UInt8](repeating: 0, count: 65_536)
        var digest = SHA256()
        var done = 0
        while done < size {
            let count = read(descriptor, &part, min(part.count, size - done))
            guard count > 0 else { return nil }
            done += count
            part.withUnsafeBytes { digest.update(bufferPointer: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
            if isKept || isText { whole.writeBytes(part[..<count]) }
        }
        guard FileIdentity(descriptor: descriptor) == identity else { return nil }
        if isKept { memory += size }
        var gzip: ByteBuffer?
        if isText, let made = Gzip.compress(whole), made.readableBytes <= size - size / 10,
            memory + made.readableBytes <= configuration.scan.memory
        {
            memory += made.readableBytes
            gzip = made
        }
        return FileContent(
            path: file.file, identity: identity, hash: Byte.hexString(digest.finalize().prefix(16)),
            bytes: isKept ? whole : nil, gzip: gzip,
            isSettled: identity.changed < begin - 1_000_000_000)
    }

    /// Whether an open file is within the root.
    private func isInside(_ descriptor: CInt) -> Bool {
        guard let path = realpath("/proc/self/fd/\(descriptor)", nil) else { return false }
        defer { free(path) }
        return String(cString: path).hasPrefix(root + "/")
    }

    /// The time of the system in nanoseconds.
    private static func now() -> Int64 {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}

/// Why a folder was not scanned.
package enum FileScanError: Error, Equatable, CustomStringConvertible {
    case unreadable
    case tooMany(Int)

    package var description: String {
        switch self {
        case .unreadable: "must be a folder that can be read"
        case .tooMany(let limit): "has more than \(limit) names"
        }
    }

    package var suggestion: String {
        self == .unreadable ? "create it, or let the gateway read it" : "raise scan.files, or serve a folder with fewer"
    }
}

/// Compression (RFC 1952).
enum Gzip {
    /// - Returns: `nil` if it fails.
    static func compress(_ bytes: ByteBuffer) -> ByteBuffer? {
        var stream = z_stream()
        // 15 + 16: the largest window, in the format of gzip.
        guard
            deflateInit2_(
                &stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                CInt(MemoryLayout<z_stream>.size)) == Z_OK
        else { return nil }
        defer { deflateEnd(&stream) }
        let bound = Int(deflateBound(&stream, UInt(bytes.readableBytes)))
        var output = ByteBuffer()
        var input = bytes
        var isComplete = false
        input.readWithUnsafeMutableReadableBytes { source in
            output.writeWithUnsafeMutableBytes(minimumWritableBytes: bound) { room in
                stream.next_in = source.baseAddress?.assumingMemoryBound(to: UInt8.self)
                stream.avail_in = UInt32(source.count)
                stream.next_out = room.baseAddress?.assumingMemoryBound(to: UInt8.self)
                stream.avail_out = UInt32(clamping: room.count)
                isComplete = deflate(&stream, Z_FINISH) == Z_STREAM_END
                return Int(stream.total_out)
            }
            return source.count
        }
        return isComplete ? ByteBuffer(bytes: output.readableBytesView) : nil
    }
}
