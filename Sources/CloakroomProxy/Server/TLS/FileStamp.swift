import FoundationEssentials

/// What tells whether a file is still the one that was read. Symbolic links are followed to their end: mounted secrets
/// are swapped by swapping a link.
struct FileFingerprint: Sendable, Equatable {
    private let path: String
    private let modified: Date
    /// Device, inode and size, as they are printed: in which types they come is nobody's promise.
    private let numbers: [String]

    /// - Returns: `nil` if there is no such file, or it cannot be looked at.
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
