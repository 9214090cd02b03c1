import FoundationEssentials

/// Identifies the version of a file, to detect changes. Symbolic links are resolved: mounted secrets are replaced by
/// changing a link.
struct FileFingerprint: Sendable, Equatable {
    private let path: String
    private let modified: Date
    /// Device, inode and size as text: the types of these attributes are not documented.
    private let numbers: [String]

    /// - Returns: `nil` if the file does not exist or its attributes cannot be read.
    init?(of path: String) {
        self.path = URL(filePath: path).resolvingSymlinksInPath().path
        guard let attributes = try? FileManager.default.attributesOfItem(atPath: self.path),
            let modified = attributes[.modificationDate] as? Date
        else { return nil }
        self.modified = modified
        numbers = [.systemNumber, .systemFileNumber, .size].map { (key: FileAttributeKey) in
            attributes[key].map { "\($0)" } ?? ""
        }
    }
}
