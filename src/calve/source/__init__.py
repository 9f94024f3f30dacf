"""Where raw rows come from. One module, or folder, a source; what rows mean is the envelopes' business."""
