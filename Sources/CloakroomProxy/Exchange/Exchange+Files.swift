import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import NIOPosix

/// A file that is being sent.
final class FileTransfer {
    /// `nil` if the bytes are in memory.
    let file: OpenFile?
    let bytes: ByteBuffer
    /// The folder that is scanned if the file has changed.
    let folder: FileFolder
    /// Position of the next byte.
    var next: Int
    let end: Int
    /// Whether the file is being opened or read, or the system sends a part of it.
    var isBusy = false
    /// Whether bytes are being written: the connection may become writable meanwhile.
    var isWriting = false
    /// While the system sends a part: checks that the file is as long as it was, because sending would never end otherwise.
    var check: RepeatedTask?

    /// The number of bytes that are read, or taken from memory, at once.
    static let pieceSize = 131_072
    /// The number of bytes that the system sends at once.
    static let regionSize = 1_048_576
    /// The last bytes, which are always read: the client gets them only if the file has not changed until then.
    static let tailSize = 16_384

    init(_ file: OpenFile?, bytes: ByteBuffer = ByteBuffer(), _ range: Range<Int>, of folder: FileFolder) {
        self.file = file
        self.bytes = bytes
        self.folder = folder
        next = range.lowerBound
        end = range.upperBound
    }
}

/// Responds with files.
extension Exchange {
    /// The file that the request is for, or what it gets instead.
    func serveFile(_ route: RouteRuntime, now: UInt64) {
        guard let folder = route.files else { return respond(route.problem(.notFound), now: now) }
        telemetry.decided(.file)
        let tree = folder.tree
        let path = Array(request.normalPath.dropFirst(route.filesPrefix))
        if let entry = tree.entries[path] { return send(entry, of: folder, route, now: now) }
        if tree.isFolder(path) {
            let location = request.normalPath + [UInt8(ascii: "/")] + request.queryWithMark
            return redirect(308, to: location, isStored: false, now: now)
        }
        guard let fallback = tree.fallback, !folder.configuration.isImmutable(path) else {
            return respond(route.problem(.notFound), now: now)
        }
        // A script that gets a page in place of a missing module or a result fails in ways that are hard to explain.
        if request.fetchMetadata.isShown { return send(fallback, isFallback: true, of: folder, route, now: now) }
        respond(
            route.problem(.notFound), moreFieldLines: Array("Vary: \(FetchMetadata.shownVary)\r\n".utf8), now: now)
    }

    private func send(
        _ entry: FileEntry, isFallback: Bool = false, of folder: FileFolder, _ route: RouteRuntime, now: UInt64
    ) {
        let lines = { (variant: FileEntry.Variant, isModified: Bool) in
            entry.fieldLines(
                variant, isPrivate: route.access.usesSession, isFallback: isFallback, isModified: isModified)
        }
        switch FileResponse.decide(entry, request.head, isGET: request.method == .get) {
        case .full(let variant):
            begin(200, lines(variant, true), variant, 0..<variant.size, of: folder, route, now: now)
        case .part(let variant, let range):
            let field = "Content-Range: bytes \(range.lowerBound)-\(range.upperBound - 1)/\(variant.size)\r\n"
            begin(206, lines(variant, true) + Array(field.utf8), variant, range, of: folder, route, now: now)
        case .notModified(let variant): respond(status: 304, fieldLines: lines(variant, false), body: [], now: now)
        case .preconditionFailed:
            respond(status: 412, fieldLines: Array("Cache-Control: no-store\r\n".utf8), body: [], now: now)
        case .unsatisfiable(let size):
            let fields = "Content-Range: bytes */\(size)\r\nCache-Control: no-store\r\n"
            respond(status: 416, fieldLines: Array(fields.utf8), body: [], now: now)
        }
    }

    /// Sends the head and the bytes of a file; only the head if there are none to send.
    private func begin(
        _ status: Int, _ lines: [UInt8], _ variant: FileEntry.Variant, _ range: Range<Int>, of folder: FileFolder,
        _ route: RouteRuntime, now: UInt64
    ) {
        let head = LocalResponse(
            status: status, title: Problem.title(of: status), fieldLines: lines, body: [], date: context.date,
            followingLength: range.count)
        if request.method == .head || range.isEmpty { return respond(head) }
        if let bytes = variant.bytes {
            let transfer = FileTransfer(nil, bytes: bytes, range, of: folder)
            machine.sendFile()
            return start(transfer, head)
        }
        guard let file = OpenFile(variant.content, limit: snapshot.config.configuration.limits.openFiles) else {
            telemetry.failed(.overloaded)
            return respond(route.problem(.overloaded, retryAfter: 1), now: now)
        }
        let transfer = FileTransfer(file, range, of: folder)
        self.transfer = transfer
        machine.suspend()
        offLoop({ file.open() }, for: transfer) { exchange, isOpen in
            guard exchange.machine.resume() == .proceed else { return }
            // Another one, or none any more: a scan will find out. A new mode of the file is only to be noted.
            if !file.isScanned { folder.requestScan() }
            guard isOpen == true else {
                exchange.telemetry.failed(.overloaded)
                return exchange.respond(route.problem(.overloaded, retryAfter: 2), now: exchange.context.now)
            }
            exchange.machine.sendFile()
            exchange.start(transfer, head)
        }
    }

    private func start(_ transfer: FileTransfer, _ head: LocalResponse) {
        self.transfer = transfer
        writeHead(head)
        continueTransfer()
        // The connection cannot take more yet: the client is waited for.
        if self.transfer === transfer, !transfer.isBusy { upstreamReadComplete() }
    }

    /// Sends as much of the file as the client takes.
    func continueTransfer() {
        while let transfer, !transfer.isBusy, !transfer.isWriting, machine.isRelaying, let downstream,
            downstream.isWritable
        {
            let left = transfer.end - transfer.next
            let count = min(left, FileTransfer.pieceSize)
            guard let file = transfer.file else {
                deliver(
                    transfer.bytes.getSlice(at: transfer.bytes.readerIndex + transfer.next, length: count), transfer)
                continue
            }
            transfer.isBusy = true
            if left > 2 * FileTransfer.pieceSize, downstream.sendsFiles {
                sendRegion(of: file, min(left - FileTransfer.tailSize, FileTransfer.regionSize), transfer)
                continue
            }
            let offset = transfer.next
            offLoop({ file.read(at: offset, count: count) }, for: transfer) { exchange, bytes in
                exchange.deliver(bytes ?? nil, transfer)
                exchange.continueTransfer()
            }
        }
    }

    /// - Parameter bytes: `nil` if the file has changed.
    private func deliver(_ bytes: ByteBuffer?, _ transfer: FileTransfer) {
        guard let bytes else { return fileChanged(transfer) }
        transfer.next += bytes.readableBytes
        transfer.isWriting = true
        upstreamBody(bytes)
        if transfer.next < transfer.end { upstreamReadComplete() } else { upstreamEnd(trailers: nil) }
        transfer.isWriting = false
    }

    /// Lets the system send a part of the file, without copies.
    private func sendRegion(of file: OpenFile, _ count: Int, _ transfer: FileTransfer) {
        guard file.isUnchanged, let region = file.region(at: transfer.next, count: count), let downstream else {
            return fileChanged(transfer)
        }
        transfer.next += count
        telemetry.sentBody(count)
        let bound = NIOLoopBound((self, transfer), eventLoop: context.eventLoop)
        transfer.check = context.eventLoop.scheduleRepeatedTask(
            initialDelay: .milliseconds(500), delay: .milliseconds(500)
        ) { _ in
            let (exchange, transfer) = bound.value
            if exchange.transfer === transfer, !file.isUnchanged { exchange.fileChanged(transfer) }
        }
        transfer.isWriting = true
        downstream.writeRegion(region)?.assumeIsolated().whenComplete { [self] result in
            guard ends(transfer) else { return }
            guard case .success = result, file.isUnchanged else { return fileChanged(transfer) }
            continueTransfer()
        }
        upstreamReadComplete()
        transfer.isWriting = false
    }

    /// The file has changed while it was sent: the client must notice.
    private func fileChanged(_ transfer: FileTransfer) {
        transfer.folder.requestScan()
        abortResponse(.internalError)
    }

    /// Runs blocking work.
    private func offLoop<Result: Sendable>(
        _ work: @escaping @Sendable () -> Result, for transfer: FileTransfer,
        _ resume: @escaping (Exchange, Result?) -> Void
    ) {
        NIOThreadPool.singleton.runIfActive(eventLoop: context.eventLoop, work).assumeIsolated().whenComplete {
            [self] result in
            if ends(transfer) { resume(self, try? result.get()) }
        }
    }

    /// A part of the file was read or sent.
    /// - Returns: Whether the file is still being sent.
    private func ends(_ transfer: FileTransfer) -> Bool {
        transfer.isBusy = false
        transfer.check?.cancel()
        guard self.transfer === transfer else { return false }
        context.updateTime()
        return true
    }
}
