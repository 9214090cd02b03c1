package import NIOCore

/// The files of a folder as they were at a scan. Responses are made from it, so that no path of a request reaches
/// the file system.
///
/// Folder `Files/`: the list of the files that a route serves, and what a request for one of them gets.
package struct FileTree: Sendable {
    /// The files by their paths below the root, in the normal form of ``RequestTarget``. A folder with an index has its
    /// path with a slash at the end. Keys are buffers: a slice of a request is one without a copy, and all of its bytes are
    /// hashed at once, not one by one as those of an array.
    package var entries: [ByteBuffer: FileEntry] = [:]
    /// What navigations without a file get.
    package var fallback: FileEntry?
    /// The contents by the bytes of the path of their file: texts are equal if their characters are, and names of files
    /// are not. The next scan reads only those that have changed.
    package var contents: [[UInt8]: FileContent] = [:]
    /// Names that are not served.
    package var skipped = 0
    /// The identities of all files by their paths below the root: those of an equal folder are equal.
    package var stamp: [[UInt8]: FileIdentity] = [:]

    package init() {}

    package subscript(path: [UInt8]) -> FileEntry? {
        get { entries[ByteBuffer(bytes: path)] }
        set { entries[ByteBuffer(bytes: path)] = newValue }
    }

    /// The paths of all files, in order.
    package var paths: [String] { entries.keys.map { String(buffer: $0) }.sorted() }

    /// Whether a path without a slash at its end is that of a folder with an index.
    package func isFolder(_ path: [UInt8]) -> Bool { self[path + [UInt8(ascii: "/")]] != nil }
}

/// Identifies a version of a file. Times are in nanoseconds.
package struct FileIdentity: Sendable, Hashable {
    package var device: UInt64
    package var inode: UInt64
    package var size: Int
    package var modified: Int64
    package var changed: Int64

    package init(device: UInt64, inode: UInt64, size: Int, modified: Int64, changed: Int64) {
        (self.device, self.inode, self.size) = (device, inode, size)
        (self.modified, self.changed) = (modified, changed)
    }

    /// Whether the contents are the same, as far as can be seen: a new name of the file, or another mode, changes only
    /// ``changed``.
    package func hasContent(of other: FileIdentity) -> Bool {
        var other = other
        other.changed = changed
        return self == other
    }
}

/// The content of a file as it was read.
package final class FileContent: Sendable {
    /// The path of the file. It contains no symbolic link.
    package let path: String
    package let identity: FileIdentity
    /// A digest of the content, or of the identity of a large file, in hexadecimal digits.
    package let hash: String
    /// The content; `nil` if it is not in memory.
    package let bytes: ByteBuffer?
    /// The content in gzip, made by the scan; `nil` for none.
    package let gzip: ByteBuffer?
    /// Whether the file was changed so long before it was read that another change would have changed the identity:
    /// the times of the system advance every few milliseconds only.
    package let isSettled: Bool

    package init(
        path: String, identity: FileIdentity, hash: String, bytes: ByteBuffer?, gzip: ByteBuffer?, isSettled: Bool
    ) {
        (self.path, self.identity, self.hash) = (path, identity, hash)
        (self.bytes, self.gzip, self.isSettled) = (bytes, gzip, isSettled)
    }

    /// Bytes in memory.
    package var memory: Int { (bytes?.readableBytes ?? 0) + (gzip?.readableBytes ?? 0) }
}

/// A file, or the index of a folder.
package final class FileEntry: Sendable {
    /// A coding in which the file can be sent. A class, because it is passed on several times for a request.
    package final class Variant: Sendable {
        package let coding: ContentCoding
        package let content: FileContent
        /// The bytes to send; `nil` if they have to be read from the file.
        package let bytes: ByteBuffer?
        package let size: Int
        /// A strong entity tag (RFC 9110 §8.8.3). The same content has the same one everywhere.
        package let tag: [UInt8]
        /// Complete field lines: those of the content, and then those that 304 has too (RFC 9110 §15.4.5).
        fileprivate let lines: [UInt8]
        /// Length of the former.
        fileprivate let contentLines: Int

        fileprivate init(_ source: Source, type: String, isOnly: Bool) {
            (coding, content, bytes) = source
            size = bytes?.readableBytes ?? content.identity.size
            let suffix = coding == .identity ? "" : "-\(coding == .gzip ? "gz" : coding.rawValue)"
            tag = Array("\"\(content.hash)\(suffix)\"".utf8)
            var text = "Content-Type: \(type)\r\nAccept-Ranges: bytes\r\n"
            if coding != .identity { text += "Content-Encoding: \(coding.rawValue)\r\n" }
            contentLines = text.utf8.count
            text += "X-Content-Type-Options: nosniff\r\n" + (isOnly ? "" : "Vary: Accept-Encoding\r\n") + "ETag: "
            lines = Array(text.utf8) + tag + [0x0d, 0x0a]
        }
    }

    /// What a variant is made of.
    package typealias Source = (coding: ContentCoding, content: FileContent, bytes: ByteBuffer?)

    /// The first one is that without a coding.
    package let variants: [Variant]
    package let type: String
    package let isImmutable: Bool

    /// - Parameter isImmutable: HTML is checked for changes nevertheless: it names the other files.
    package init(_ sources: [Source], type: String, isImmutable: Bool) {
        variants = sources.map { Variant($0, type: type, isOnly: sources.count == 1) }
        self.type = type
        self.isImmutable = isImmutable && !type.hasPrefix("text/html")
    }

    /// The value of `Cache-Control`.
    /// - Parameter isPrivate: Whether the file is only for requests with a session.
    package func cacheControl(isPrivate: Bool) -> String { Self.cacheControl(isImmutable, isPrivate) }

    private static func cacheControl(_ isImmutable: Bool, _ isPrivate: Bool) -> String {
        let scope = isPrivate ? "private" : "public"
        return isImmutable ? "\(scope), max-age=31536000, immutable" : isPrivate ? "private, no-cache" : "no-cache"
    }

    /// The lines that depend on the route: of files that change, of those for requests with a session, of immutable
    /// ones, and of immutable ones for requests with a session.
    private static let policyLines = [(false, false), (false, true), (true, false), (true, true)].map {
        Array("Cache-Control: \(cacheControl($0, $1))\r\n\($1 ? "Vary: Cookie\r\n" : "")".utf8)
    }
    private static let fallbackLine = Array("Vary: \(FetchMetadata.shownVary)\r\n".utf8)

    /// Complete field lines for a variant. Most were made by the scan: as text, they took 6,700 of the 43,000
    /// instructions of a request.
    /// - Parameters:
    ///   - isPrivate: As above.
    ///   - isFallback: Whether the file is sent in place of another one.
    ///   - isModified: Whether the content follows, and not 304 (RFC 9110 §15.4.5).
    package func fieldLines(
        _ variant: Variant, isPrivate: Bool, isFallback: Bool, isModified: Bool = true
    ) -> [UInt8] {
        var lines = Self.policyLines[(isImmutable ? 2 : 0) + (isPrivate ? 1 : 0)]
        if isModified { lines += variant.lines } else { lines += variant.lines[variant.contentLines...] }
        if isFallback { lines += Self.fallbackLine }
        return lines
    }
}
