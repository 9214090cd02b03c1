public import CloakroomCore
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// A folder whose files a route serves, and the tree that responses are made from.
final class FileFolder: Sendable {
    private struct State {
        var tree: FileTree
        /// What the last scan found, if it differs from the tree.
        var candidate: FileTree?
        var isScanDue = false
        var nextScan = ContinuousClock.now
    }

    let configuration: FilesConfiguration
    private let state: Mutex<State>
    private let lines = LogRateLimiter(interval: .seconds(60))

    /// Scans a folder.
    /// - Parameter previous: The folder with the same root, whose contents need not be read again.
    init(_ configuration: FilesConfiguration, previous: FileFolder?) throws(FileScanError) {
        self.configuration = configuration
        state = Mutex(State(tree: try FileScan.run(configuration, previous: previous?.contents(for: configuration))))
    }

    /// The files as of the last scan.
    var tree: FileTree { state.withLock { $0.tree } }

    /// A file differed from the tree: scans as soon as possible.
    func requestScan() { state.withLock { $0.isScanDue = true } }

    /// The last contents, without a list of files that another configuration would not have.
    private func contents(for other: FilesConfiguration) -> FileTree? {
        guard other.root == configuration.root, other.codings == configuration.codings,
            other.names == configuration.names
        else { return nil }
        return FileTree(entries: [:], fallback: nil, contents: tree.contents, skipped: 0, stamp: [])
    }

    /// Scans the folder. A tree is published when two scans have found the same, so that a copy in any order is one change.
    /// Until then, and after a scan that failed, the previous one remains.
    /// - Parameter isComplete: Whether one scan is enough, because an operator asked for it.
    func scan(isComplete: Bool, logger: Logger) {
        let (tree, candidate) = state.withLock { ($0.tree, $0.candidate) }
        do throws(FileScanError) {
            let found = try FileScan.run(configuration, previous: candidate ?? tree)
            let isChanged = found.stamp != tree.stamp
            let isPublished = !isChanged || isComplete || found.stamp == candidate?.stamp
            state.withLock { state in
                if isPublished { state.tree = found }
                state.candidate = isPublished ? nil : found
            }
            guard isChanged, isPublished, lines.allow(at: NIODeadline.now().uptimeNanoseconds) != nil else { return }
            logger.notice(
                "files changed",
                metadata: [
                    "event": "files_changed", "folder": "\(configuration.root)", "files": "\(found.contents.count)",
                    "skipped": "\(found.skipped)",
                ])
        } catch {
            guard lines.allow(at: NIODeadline.now().uptimeNanoseconds) != nil else { return }
            logger.error(
                "folder not scanned, previous files kept",
                metadata: [
                    "event": "files_scan_failed", "folder": "\(configuration.root)", "reason": "\(error)",
                ])
        }
    }

    /// Whether it is time for a scan.
    private func takeTurn() -> Bool {
        state.withLock { state in
            let isDue = configuration.scan.every > .zero && state.nextScan <= .now
            guard isDue || state.isScanDue else { return false }
            state.isScanDue = false
            state.nextScan = .now + configuration.scan.every
            return true
        }
    }

    /// Scans take long, and others wait for the threads of the process.
    private static let thread: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        return pool
    }()

    /// Scans folders until cancelled.
    static func watch(_ folders: () -> [FileFolder], logger: Logger) async {
        // `sleep` throws only on cancellation.
        while (try? await Task.sleep(for: .milliseconds(500))) != nil {
            for folder in folders() where folder.takeTurn() {
                try? await thread.runIfActive { folder.scan(isComplete: false, logger: logger) }
            }
        }
    }
}

/// The folders of a configuration. They outlive it: the next one scans those that it has too, and reads only changes.
public final class FileFolders: Sendable {
    private let folders = Mutex<[FileFolder]>([])

    /// Creates a set without folders.
    public init() {}

    /// Scans the folders of the routes.
    /// - Returns: The folder of each route.
    /// - Throws: ``FileFolderError`` for a folder that cannot be scanned.
    func open(_ routes: [Route], logger: Logger) throws(FileFolderError) -> [FileFolder?] {
        let previous = folders.withLock { $0 }
        var opened: [FileFolder?] = []
        for (index, route) in routes.enumerated() {
            guard let files = route.files else {
                opened.append(nil)
                continue
            }
            if let same = (previous + opened.compactMap(\.self)).first(where: { $0.configuration == files }) {
                same.scan(isComplete: true, logger: logger)
                opened.append(same)
                continue
            }
            do throws(FileScanError) {
                opened.append(try FileFolder(files, previous: previous.first { $0.configuration.root == files.root }))
            } catch {
                throw FileFolderError(error, route: index)
            }
        }
        let all = opened.compactMap(\.self)
        folders.withLock { $0 = all }
        return opened
    }
}

/// A folder of a route cannot be scanned.
public struct FileFolderError: ConfigFindingError, CustomStringConvertible {
    /// The key and the reason.
    public let finding: ConfigFinding?
    /// The key, the reason and a suggestion.
    public var description: String { finding?.description ?? "" }

    init(_ error: FileScanError, route: Int) {
        finding = ConfigFinding(
            key: ["routes", "\(route)", "files", "root"], message: error.description, suggestion: error.suggestion)
    }
}
