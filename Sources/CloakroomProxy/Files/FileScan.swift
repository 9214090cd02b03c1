import CZlib
public import CloakroomCore
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
    /// A regular file, its path below the root in the normal form, and that of the file.
    private typealias Found = (name: String, path: [UInt8], file: String, identity: FileIdentity)

    /// Set to end the scans of a thread soon.
    @TaskLocal static var stop: FlagSetOnce?

    private let configuration: FilesConfiguration
    private let previous: FileTree?
    private let root: String
    private var found: [Found] = []
    private var names = 0
    private var memory = 0
    private var tree = FileTree()

    /// The maximum depth of folders.
    private static let maxDepth = 32
    /// The maximum size of a file in memory, in bytes.
    private static let maxInMemory = 262_144
    /// The maximum size of a file that is read for its tag, in bytes: a sparse one may have terabytes.
    private static let maxDigested = 67_108_864
    /// The sizes of files that are compressed, in bytes.
    private static let compressed = 1_024...4_194_304

    /// - Parameter previous: The last tree of the same folder and configuration.
    /// - Returns: The previous tree if nothing has changed.
    package static func run(
        _ configuration: FilesConfiguration, previous: FileTree? = nil
    ) throws(FileScanError) -> FileTree {
        guard let path = realpath(configuration.root, nil) else { throw .unreadable }
        defer { free(path) }
        var scan = FileScan(configuration: configuration, previous: previous, root: String(cString: path))
        try scan.list([], file: scan.root, above: [])
        return try scan.makeTree()
    }

    private func checkStop() throws(FileScanError) {
        if Self.stop?.isSet == true { throw .stopped }
    }

    // MARK: - Names

    /// Lists a folder and those below it.
    /// - Parameters:
    ///   - path: The path below the root, percent-encoded.
    ///   - above: The folders that contain it: a link to one of them is not followed.
    private mutating func list(_ path: [UInt8], file: String, above: [FileIdentity]) throws(FileScanError) {
        try checkStop()
        guard let folder = opendir(file) else {
            guard !path.isEmpty else { throw .unreadable }
            return tree.skipped += 1
        }
        var entries: [String] = []
        while names <= configuration.scan.files, let entry = readdir(folder) {
            let offset = MemoryLayout<dirent>.offset(of: \.d_name) ?? 0
            let start = UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)
            guard let name = String(validatingCString: start) else {
                tree.skipped += 1
                continue
            }
            guard name != ".", name != ".." else { continue }
            names += 1
            entries.append(name)
        }
        closedir(folder)
        guard names <= configuration.scan.files else { throw .tooMany(configuration.scan.files) }
        for name in entries { try visit(name, in: path, file: "\(file)/\(name)", above: above) }
    }

    private mutating func visit(
        _ name: String, in folder: [UInt8], file: String, above: [FileIdentity]
    ) throws(FileScanError) {
        var status = stat()
        var file = file
        var path = folder + [UInt8(ascii: "/")]
        for byte in name.utf8 {
            let isPlain = Authority.isUnreserved(byte) || byte == UInt8(ascii: "+")
            if isPlain { path.append(byte) } else { path += "%\(Byte.hexString([byte]))".utf8 }
        }
        var normal: [UInt8] = []
        guard isServed(name), lstat(file, &status) == 0,
            let target = try? RequestTarget.parse(path.span, scratch: &normal)
        else { return tree.skipped += 1 }
        if status.st_mode & S_IFMT == S_IFLNK {
            guard configuration.names.links == .inside, let resolved = realpath(file, nil) else {
                return tree.skipped += 1
            }
            file = String(cString: resolved)
            free(resolved)
            // Hidden files stay hidden; the folders of a Kubernetes volume begin with two dots.
            let parts = file.utf8.dropFirst(root.utf8.count).split(separator: UInt8(ascii: "/"))
            guard isInside(file), lstat(file, &status) == 0,
                parts.allSatisfy({ $0.starts(with: "..".utf8) || isServed(String(Substring($0))) })
            else { return tree.skipped += 1 }
        }
        if status.st_mode & S_IFMT == S_IFDIR {
            let identity = FileIdentity(
                device: UInt64(status.st_dev), inode: UInt64(status.st_ino), size: 0, modified: 0, changed: 0)
            guard above.count < Self.maxDepth, !above.contains(identity) else { return tree.skipped += 1 }
            return try list(path, file: file, above: above + [identity])
        }
        guard let identity = FileIdentity(status) else { return tree.skipped += 1 }
        found.append((name, target.isPathRewritten ? normal : path, file, identity))
    }

    /// Names are compared by their bytes: as text, a character that combines with a dot would hide it.
    private func isServed(_ name: String) -> Bool {
        let names = configuration.names
        if name.utf8.first == UInt8(ascii: "."), !names.dotfiles.contains(where: { $0.utf8.elementsEqual(name.utf8) }) {
            return false
        }
        var bytes = name.lowercased().utf8[...]
        let ends = { (ending: String) in bytes.suffix(ending.utf8.count).elementsEqual(ending.utf8) }
        while !names.exclude.contains(where: ends) {
            // An encoded file is its content.
            guard let coding = ContentCoding.allCases.dropFirst().first(where: { ends($0.ending) }) else { return true }
            bytes.removeLast(coding.ending.utf8.count)
        }
        return false
    }

    // MARK: - Contents

    private mutating func makeTree() throws(FileScanError) -> FileTree {
        tree.stamp = Dictionary(found.map { ($0.path, $0.identity) }) { $1 }
        // A file that could not be read is tried again when it can be opened.
        if let previous, previous.stamp == tree.stamp, previous.contents.values.allSatisfy(\.isSettled),
            !found.contains(where: { previous[$0.path] == nil && access($0.file, R_OK) == 0 })
        {
            return previous
        }
        var served: [[UInt8]: FileContent] = [:]
        // The smallest files first, so that as many as possible are in memory.
        found.sort { ($0.identity.size, $0.file) < ($1.identity.size, $1.file) }
        for file in found {
            let key = Array(file.file.utf8)
            // The system may have no descriptor for the moment.
            let known = previous?.contents[key].flatMap { $0.identity == file.identity ? $0 : nil }
            if tree.contents[key] == nil { tree.contents[key] = try content(of: file, known) ?? known }
            served[file.path] = tree.contents[key]
            if served[file.path] == nil { tree.skipped += 1 }
        }
        for file in found {
            guard let content = served[file.path] else { continue }
            var variants: [FileEntry.Source] = [(.identity, content, content.bytes)]
            for coding in configuration.codings.siblings {
                guard let sibling = served[file.path + Array(coding.ending.utf8)] else { continue }
                variants.append((coding, sibling, sibling.bytes))
            }
            if let gzip = content.gzip, !variants.contains(where: { $0.coding == .gzip }) {
                variants.append((.gzip, content, gzip))
            }
            let entry = FileEntry(
                variants, type: FileTypes.type(of: file.name, configured: configuration.names.types),
                isImmutable: configuration.isImmutable(file.path))
            tree[file.path] = entry
            guard file.name.utf8.elementsEqual(configuration.index.utf8) else { continue }
            tree[Array(file.path[...(file.path.lastIndex(of: UInt8(ascii: "/")) ?? 0)])] = entry
        }
        tree.fallback = configuration.fallback.flatMap { tree[Array("/\($0)".utf8)] }
        return tree
    }

    /// Reads a file, unless it is known.
    /// - Returns: `nil` if it cannot be read, or changed meanwhile.
    private mutating func content(of file: Found, _ known: FileContent?) throws(FileScanError) -> FileContent? {
        try checkStop()
        let (size, limit) = (file.identity.size, configuration.scan.memory)
        let isKept = size <= Self.maxInMemory && memory + size <= limit
        if let known, known.isSettled, (known.bytes != nil) == isKept, memory + known.memory <= limit {
            memory += known.memory
            return known
        }
        guard let (descriptor, identity) = FileIdentity.openFile(file.file) else { return nil }
        defer { close(descriptor) }
        // A folder may have been replaced by a link since it was listed: the system knows where the file is.
        guard identity == file.identity, let path = realpath("/proc/self/fd/\(descriptor)", nil) else { return nil }
        defer { free(path) }
        guard isInside(String(cString: path)) else { return nil }
        let begin = LoopClock().wallNanoseconds(at: NIODeadline.now().uptimeNanoseconds)
        // Compressed content has to be smaller by a tenth.
        let room = min(size - size / 10, limit - memory - (isKept ? size : 0))
        let isText =
            configuration.codings.gzip && Self.compressed.contains(size) && room > 0
            && FileTypes.isText(FileTypes.type(of: file.name, configured: configuration.names.types))
        var whole: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 65_536)
        var digest = SHA256()
        var done = 0
        if size > Self.maxDigested {
            digest.update(data: Array("\(size) \(identity.modified) \(identity.inode) \(identity.device)".utf8))
            done = size
        }
        while done < size {
            try checkStop()
            let count = read(descriptor, &part, min(part.count, size - done))
            guard count > 0 else { return nil }
            done += count
            digest.update(data: part[..<count])
            if isKept || isText { whole += part[..<count] }
        }
        guard FileIdentity(descriptor: descriptor) == identity else { return nil }
        let gzip = isText ? Gzip.compress(&whole, room: room) : nil
        let content = FileContent(
            path: file.file, identity: identity, hash: Byte.hexString(digest.finalize().prefix(16)),
            bytes: isKept ? ByteBuffer(bytes: whole) : nil, gzip: gzip,
            isSettled: identity.changed < begin - 1_000_000_000)
        memory += content.memory
        return content
    }

    private func isInside(_ path: String) -> Bool { path.utf8.starts(with: "\(root)/".utf8) }
}

/// Why a folder was not scanned.
public struct FileScanError: ConfigFindingError, Equatable, CustomStringConvertible {
    /// The key, the reason and a suggestion.
    public private(set) var finding: ConfigFinding?
    /// The reason.
    public var description: String { finding?.sentence ?? "" }

    static let unreadable = FileScanError("must be a folder that can be read", "create it, or let the gateway read it")
    static let stopped = FileScanError("was not scanned until the stop", "")
    static func tooMany(_ limit: Int) -> FileScanError {
        FileScanError("has more than \(limit) names", "raise scan.files, or serve a folder with fewer")
    }

    private init(_ message: String, _ suggestion: String) {
        finding = ConfigFinding(key: [], message: message, suggestion: suggestion)
    }

    /// The error of a section `files`.
    package func at(_ section: [String]) -> FileScanError {
        var error = self
        error.finding?.key = section + ["root"]
        return error
    }
}

/// Compression (RFC 1952).
enum Gzip {
    /// - Parameter bytes: Not changed.
    /// - Returns: `nil` if it has more bytes than there is room.
    static func compress(_ bytes: inout [UInt8], room: Int) -> ByteBuffer? {
        var stream = z_stream()
        // 15 + 16: the largest window, in the format of gzip.
        guard
            deflateInit2_(
                &stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY, ZLIB_VERSION,
                CInt(MemoryLayout<z_stream>.size)) == Z_OK
        else { return nil }
        defer { deflateEnd(&stream) }
        var output = [UInt8](repeating: 0, count: room)
        let isComplete = bytes.withUnsafeMutableBufferPointer { source in
            output.withUnsafeMutableBufferPointer { target in
                (stream.next_in, stream.avail_in) = (source.baseAddress, UInt32(source.count))
                (stream.next_out, stream.avail_out) = (target.baseAddress, UInt32(target.count))
                return deflate(&stream, Z_FINISH) == Z_STREAM_END
            }
        }
        return isComplete ? ByteBuffer(bytes: output[..<Int(stream.total_out)]) : nil
    }
}
