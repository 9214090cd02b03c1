import CloakroomCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization

/// A folder whose files a route serves, and the tree that responses are made from.
public final class FileFolder: Sendable {
    private struct State {
        var tree: FileTree
        /// What the last scan found, if it differs from the tree.
        var candidate: FileTree?
        /// Scans since the last one whose tree was published.
        var unpublished = 0
        /// `nil` for none, unless one is requested.
        var nextScan: ContinuousClock.Instant? = .now
    }

    let configuration: FilesConfiguration
    private let state: Mutex<State>
    private let lines = LogRateLimiter(interval: .seconds(60))
    /// A folder that changes with every scan is published nevertheless after this number of them.
    private static let maxUnpublished = 5

    init(_ configuration: FilesConfiguration) throws(FileScanError) {
        self.configuration = configuration
        state = Mutex(State(tree: try FileScan.run(configuration)))
        _ = takeTurn()
    }

    /// The files as of the last scan.
    var tree: FileTree { state.withLock { $0.tree } }

    /// The file at a path below the root. The tree, whose tables would have to be retained, is not copied.
    func entry(at path: ByteBuffer) -> FileEntry? { state.withLock { $0.tree.entries[path] } }

    /// A file differed from the tree: scans as soon as possible.
    func requestScan() { state.withLock { $0.nextScan = .now } }

    /// Scans the folder. A tree is published when two scans have found the same, so that a copy in any order is one change.
    /// Until then, and after a scan that failed, the previous one remains. Blocks; not called by two threads at a time.
    /// - Parameter isComplete: Whether one scan is enough, because an operator asked for it.
    func scan(isComplete: Bool, logger: Logger) {
        let (tree, candidate, count) = state.withLock { ($0.tree, $0.candidate, $0.unpublished + 1) }
        do throws(FileScanError) {
            let found = try FileScan.run(configuration, previous: candidate ?? tree)
            let isChanged = found.stamp != tree.stamp
            let isStable = !isChanged || isComplete || found.stamp == candidate?.stamp
            let isPublished = isStable || count == Self.maxUnpublished
            state.withLock { state in
                if isPublished { state.tree = found }
                (state.candidate, state.unpublished) = isPublished ? (nil, 0) : (found, count)
            }
            guard isChanged, isPublished else { return }
            let details: Logger.Metadata = ["files": "\(found.contents.count)", "skipped": "\(found.skipped)"]
            if isStable { return log(.notice, "files changed", "files_changed", details) }
            log(.warning, "files change with every scan", "files_unstable", details)
        } catch {
            guard error != .stopped else { return }
            log(.error, "folder not scanned, previous files kept", "files_scan_failed", ["reason": "\(error)"])
        }

        func log(_ level: Logger.Level, _ message: Logger.Message, _ event: String, _ details: Logger.Metadata) {
            guard lines.allow(at: NIODeadline.now().uptimeNanoseconds) != nil else { return }
            let place: Logger.Metadata = ["event": "\(event)", "folder": "\(configuration.root)"]
            logger.log(level: level, message, metadata: place.merging(details) { $1 })
        }
    }

    /// Whether it is time for a scan.
    private func takeTurn() -> Bool {
        state.withLock { state in
            guard let next = state.nextScan, next <= .now else { return false }
            state.nextScan = configuration.scan.every > .zero ? .now + configuration.scan.every : nil
            return true
        }
    }

    /// Scans folders until cancelled.
    static func watch(_ folders: () -> [FileFolder], logger: Logger) async {
        // `sleep` throws only on cancellation.
        while (try? await Task.sleep(for: .milliseconds(500))) != nil {
            for folder in folders() where folder.takeTurn() {
                try? await onScanThread { folder.scan(isComplete: false, logger: logger) }
            }
        }
    }

    private static let thread: NIOThreadPool = {
        let pool = NIOThreadPool(numberOfThreads: 1)
        pool.start()
        return pool
    }()

    /// Runs work that scans folders, one at a time: a scan that ended late would restore an old tree. Scans take long, and
    /// others wait for the other threads of the process. Cancellation, or a graceful shutdown, ends the scans.
    package static func onScanThread<R: Sendable>(_ work: @escaping @Sendable () throws -> R) async throws -> R {
        let stop = FlagSetOnce()
        return try await withTaskCancellationOrGracefulShutdownHandler {
            try await thread.runIfActive { try FileScan.$stop.withValue(stop) { try work() } }
        } onCancelOrGracefulShutdown: {
            stop.set()
        }
    }

    /// Scans the folders of the routes.
    /// - Parameter previous: Those of the previous configuration: of a folder with the same one, only changes are read.
    /// - Returns: The folder of each route.
    static func open(
        _ routes: [Route], _ previous: [FileFolder], _ logger: Logger
    ) throws(FileScanError) -> [FileFolder?] {
        try routes.enumerated().map { index, route throws(FileScanError) -> FileFolder? in
            guard let files = route.files else { return nil }
            if let same = previous.first(where: { $0.configuration == files }) {
                same.scan(isComplete: true, logger: logger)
                return same
            }
            do throws(FileScanError) {
                return try FileFolder(files)
            } catch {
                throw error.at(["routes", "\(index)", "files"])
            }
        }
    }
}
